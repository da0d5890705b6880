package bridge

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// What Open vSwitch on hostb sees of our headers, and what we do with its own.

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

// geneveOptions: what Open vSwitch reads in our options, and what we do with its options.
func geneveOptions(n *harness.TwoHosts) {
	n.T.Helper()
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
		if harness.Ping(n.Ctx, n.Client, topo.ServerV4) == nil { // a busy machine may have sent less than five
			return errors.New("ping is answered")
		}
		drops, err := n.Drops("hosta")
		if err == nil && (drops["unknown-option"] < 5 || len(drops) != 1) {
			err = fmt.Errorf("drops %v", drops)
		}
		return err
	})
}

// nvgreKey: the VSID is the upper 24 bits of what GRE calls the key (RFC 7637 3.2).
func nvgreKey(n *harness.TwoHosts) {
	n.T.Helper()
	switchFlows(n, "in_port=tunnel0,tun_id=0x6400/0xffffff00,actions=output:p0", "in_port=p0,actions=output:tunnel0")
	n.Pings(append(n.Directions(4), n.Directions(6)...)...)
	matched(n, "tun_id=0x6400/0xffffff00")
	n.NoDrops()
}
