package bridge

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//	eth0      p0    u0         1600        u0    p0      eth0
//
// One host has an edge, the other Open vSwitch's userspace datapath.

func TestOpenVSwitchEncapsulations(t *testing.T) {
	for _, c := range []struct {
		name          string
		encapsulation overlay.Encapsulation
		family        int
		more          []string // of our segment
	}{
		{"Geneve/IPv4", overlay.Geneve, 4, nil},
		{"Geneve/IPv6", overlay.Geneve, 6, []string{"options: " + harness.GeneveOptions}},
		{"NVGRE/IPv4", overlay.NVGRE, 4, nil},
		{"NVGRE/IPv6", overlay.NVGRE, 6, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := harness.NewTwoHosts(t, roomy(c.family))
			peer := topo.OVSHalf{Encapsulation: c.encapsulation, UDPChecksum: c.family == 6 && c.encapsulation == overlay.Geneve}
			for _, role := range []struct {
				name string
				a, b topo.Half
			}{{"EdgeAtClient", n.Ours(c.encapsulation, c.more...), peer}, {"EdgeAtServer", peer, n.Ours(c.encapsulation, c.more...)}} {
				t.Run(role.name, func(t *testing.T) {
					n := n.Sub(t)
					clear(n.Edges)
					path := n.BuildRecorded(role.a, role.b)
					defer path.Close() // says nothing new after a failure
					framesCross(n, harness.ClientMAC, harness.ServerMAC, pkttest.EtherTypeExperimental)
					framesCross(n, harness.ClientMAC, harness.Broadcast, pkttest.EtherTypeExperimental)
					carries(n, small)
					n.Quiet()
					n.Must(path.Close())
				})
			}
		})
	}
}

// ofctl talks to the switch of a host.
func ofctl(n *harness.TwoHosts, h *topo.Host, args ...string) (string, error) {
	dirs, err := filepath.Glob(filepath.Join(n.Topo.Dir, "ovs-"+h.Name+"-*", "br-int.mgmt"))
	if err != nil || len(dirs) == 0 {
		return "", errors.Join(fmt.Errorf("no switch on %s", h.Name), err)
	}
	c := h.Command(n.Ctx, append([]string{"ovs-ofctl", "-t", "5", args[0], dirs[len(dirs)-1]}, args[1:]...)...)
	out, err := c.Output()
	return string(out), err
}

// switchFlows replaces all flows of the switch on hostb.
func switchFlows(n *harness.TwoHosts, flows ...string) {
	n.T.Helper()
	_, err := ofctl(n, n.B, "del-flows")
	n.Must(err)
	for _, f := range flows {
		_, err := ofctl(n, n.B, "add-flow", f)
		n.Must(err)
	}
}

// matched is a fact: packets have met a flow whose text contains words.
func matched(n *harness.TwoHosts, words string) {
	n.T.Helper()
	n.Fact("Open vSwitch has seen packets with "+words, func() error {
		out, err := ofctl(n, n.B, "dump-flows")
		for line := range strings.Lines(out) {
			if strings.Contains(line, words) && regexp.MustCompile(`n_packets=[1-9]`).MatchString(line) {
				return nil
			}
		}
		return errors.Join(errors.New(out), err)
	})
}

// What Open vSwitch reads in our options, and what we do with its options.
func TestOpenVSwitchGeneveOptions(t *testing.T) {
	n := harness.NewTwoHosts(t, roomy(4))
	n.BuildRecorded(n.Ours(overlay.Geneve, "options: "+harness.GeneveOptions), topo.OVSHalf{Encapsulation: overlay.Geneve})
	for _, tlv := range []string{
		"{class=0x104,type=1,len=4}->tun_metadata0",
		"{class=0x104,type=3,len=8}->tun_metadata1",
		"{class=0x104,type=0x81,len=4}->tun_metadata2",
	} {
		_, err := ofctl(n, n.B, "add-tlv-map", tlv)
		n.Must(err)
	}
	switchFlows(n, "in_port=tunnel0,tun_metadata0=0xdeadbeef,actions=output:p0", "in_port=p0,actions=output:tunnel0")
	n.Pings(n.Directions(4)...)
	matched(n, "tun_metadata0=0xdeadbeef")

	switchFlows(n, "in_port=tunnel0,actions=output:p0", "in_port=p0,actions=set_field:0x1122334455667788->tun_metadata1,output:tunnel0")
	n.Pings(n.Directions(6)...)
	n.NoDrops()

	switchFlows(n, "in_port=tunnel0,actions=output:p0", "in_port=p0,actions=set_field:0x11223344->tun_metadata2,output:tunnel0")
	n.Once("nothing comes with a critical option", func() error {
		if harness.Ping(n.Ctx, n.Client, topo.ServerV4) == nil {
			return errors.New("ping is answered")
		}
		return nil
	})
	n.Fact("it is dropped as unknown-option", func() error {
		drops, err := n.Drops("hosta")
		if err == nil && (drops["unknown-option"] < 5 || len(drops) != 1) {
			err = fmt.Errorf("drops %v", drops)
		}
		return err
	})
}

// The VSID is the upper 24 bits of what GRE calls the key (RFC 7637 3.2).
func TestOpenVSwitchNVGREKey(t *testing.T) {
	n := harness.NewTwoHosts(t, roomy(4))
	n.BuildRecorded(n.Ours(overlay.NVGRE), topo.OVSHalf{Encapsulation: overlay.NVGRE})
	switchFlows(n, "in_port=tunnel0,tun_id=0x6400/0xffffff00,actions=output:p0", "in_port=p0,actions=output:tunnel0")
	n.Pings(append(n.Directions(4), n.Directions(6)...)...)
	matched(n, "tun_id=0x6400/0xffffff00")
	n.NoDrops()
}
