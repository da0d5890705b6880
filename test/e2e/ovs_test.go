package e2e

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
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
		{"Geneve/IPv6", overlay.Geneve, 6, []string{"options: " + geneveOptions}},
		{"NVGRE/IPv4", overlay.NVGRE, 4, nil},
		{"NVGRE/IPv6", overlay.NVGRE, 6, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newTwoHosts(t, roomy(c.family))
			peer := topo.OVSHalf{Encapsulation: c.encapsulation, UDPChecksum: c.family == 6 && c.encapsulation == overlay.Geneve}
			for _, role := range []struct {
				name string
				a, b topo.Half
			}{{"EdgeAtClient", n.ours(c.encapsulation, c.more...), peer}, {"EdgeAtServer", peer, n.ours(c.encapsulation, c.more...)}} {
				t.Run(role.name, func(t *testing.T) {
					n := n.sub(t)
					clear(n.edges)
					path := n.build(role.a, role.b)
					defer path.Close() // says nothing new after a failure
					n.framesCross(clientMAC, serverMAC, pkttest.EtherTypeExperimental)
					n.framesCross(clientMAC, broadcast, pkttest.EtherTypeExperimental)
					n.carries(small)
					n.quiet()
					n.must(path.Close())
				})
			}
		})
	}
}

// ofctl talks to the switch of a host.
func (n *twoHosts) ofctl(h *topo.Host, args ...string) (string, error) {
	dirs, err := filepath.Glob(filepath.Join(n.lab.Dir, "ovs-"+h.Name+"-*", "br-int.mgmt"))
	if err != nil || len(dirs) == 0 {
		return "", errors.Join(fmt.Errorf("no switch on %s", h.Name), err)
	}
	c := h.Command(n.ctx, append([]string{"ovs-ofctl", "-t", "5", args[0], dirs[len(dirs)-1]}, args[1:]...)...)
	out, err := c.Output()
	return string(out), err
}

// switchFlows replaces all flows of the switch on hostb.
func (n *twoHosts) switchFlows(flows ...string) {
	n.t.Helper()
	_, err := n.ofctl(n.B, "del-flows")
	n.must(err)
	for _, f := range flows {
		_, err := n.ofctl(n.B, "add-flow", f)
		n.must(err)
	}
}

// matched is a fact: packets have met a flow whose text contains words.
func (n *twoHosts) matched(words string) {
	n.t.Helper()
	n.fact("Open vSwitch has seen packets with "+words, func() error {
		out, err := n.ofctl(n.B, "dump-flows")
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
	n := newTwoHosts(t, roomy(4))
	n.build(n.ours(overlay.Geneve, "options: "+geneveOptions), topo.OVSHalf{Encapsulation: overlay.Geneve})
	for _, tlv := range []string{
		"{class=0x104,type=1,len=4}->tun_metadata0",
		"{class=0x104,type=3,len=8}->tun_metadata1",
		"{class=0x104,type=0x81,len=4}->tun_metadata2",
	} {
		_, err := n.ofctl(n.B, "add-tlv-map", tlv)
		n.must(err)
	}
	n.switchFlows("in_port=tunnel0,tun_metadata0=0xdeadbeef,actions=output:p0", "in_port=p0,actions=output:tunnel0")
	n.pings(n.directions(4)...)
	n.matched("tun_metadata0=0xdeadbeef")

	n.switchFlows("in_port=tunnel0,actions=output:p0", "in_port=p0,actions=set_field:0x1122334455667788->tun_metadata1,output:tunnel0")
	n.pings(n.directions(6)...)
	n.noDrops()

	n.switchFlows("in_port=tunnel0,actions=output:p0", "in_port=p0,actions=set_field:0x11223344->tun_metadata2,output:tunnel0")
	n.once("nothing comes with a critical option", func() error {
		if ping(n.ctx, n.Client, topo.ServerV4) == nil {
			return errors.New("ping is answered")
		}
		return nil
	})
	n.fact("it is dropped as unknown-option", func() error {
		drops, err := n.drops("hosta")
		if err == nil && (drops["unknown-option"] < 5 || len(drops) != 1) {
			err = fmt.Errorf("drops %v", drops)
		}
		return err
	})
}

// The VSID is the upper 24 bits of what GRE calls the key (RFC 7637 3.2).
func TestOpenVSwitchNVGREKey(t *testing.T) {
	n := newTwoHosts(t, roomy(4))
	n.build(n.ours(overlay.NVGRE), topo.OVSHalf{Encapsulation: overlay.NVGRE})
	n.switchFlows("in_port=tunnel0,tun_id=0x6400/0xffffff00,actions=output:p0", "in_port=p0,actions=output:tunnel0")
	n.pings(append(n.directions(4), n.directions(6)...)...)
	n.matched("tun_id=0x6400/0xffffff00")
	n.noDrops()
}
