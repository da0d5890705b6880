package qemu

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/test/debian"
)

// overlay is a script for a tunnel between a driver's tester and router.
const overlay = `set -e
ip -n tester%[1]d addr add 192.0.2.10/24 dev tx%[1]d
ip -n tester%[1]d link add vx type vxlan id 7 local 192.0.2.10 remote 192.0.2.1 dstport 4789 dev tx%[1]d
ip -n router%[1]d link add vx type vxlan id 7 local 192.0.2.1 remote 192.0.2.10 dstport 4789 dev in%[1]d
ip -n tester%[1]d addr add 203.0.113.1/30 dev vx
ip -n router%[1]d addr add 203.0.113.2/30 dev vx
ip -n tester%[1]d link set vx up
ip -n router%[1]d link set vx up`

const noOverlay = `set -e
ip -n tester%[1]d link del vx
ip -n router%[1]d link del vx
ip -n tester%[1]d addr del 192.0.2.10/24 dev tx%[1]d`

// planted are causes that only an adapter has, by driver: what lab why proposes by what the adapter counts, flips, and takes back. (RSS of virtio-net is
// none of them: QEMU 7.2 loses flows with it.)
var planted = map[string]struct {
	setting string // of lab why
	plant   string // arguments of ethtool, with the interface's name
	undo    string
	show    string
	why     string // the evidence
}{
	"vmxnet3": {"ring", "-G %s rx 64", "-G %s rx 1024", "-g %s", "had no room for"},
}

// proposed: lab why finds the driver's cause at the receiver and flips it, and the setting is as planted in the end.
func proposed(t *testing.T, m *debian.Machine, d int) {
	c, name := planted[drivers[d].name], fmt.Sprintf("in%d", d)
	at := func(arguments string) string {
		return fmt.Sprintf("ip netns exec router%d ethtool "+arguments, d, name)
	}
	m.Must(at(c.plant))
	defer m.Must(at(c.undo))
	m.Must(fmt.Sprintf(overlay, d))
	defer m.Must(fmt.Sprintf(noOverlay, d))
	m.Fact("the overlay carries packets", fmt.Sprintf("ip netns exec tester%d ping -c 1 -W 1 203.0.113.2", d))
	before := m.Must(at(c.show))
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	said, err := m.Run(ctx, fmt.Sprintf("cd /root && exec selvage-lab why --client ns:tester%d --server ns:router%[1]d --path overlay=203.0.113.2 --path plain=192.0.2.1 "+
		"--may %s --streams 8 --rounds 1 --slice 1s --settle 1s --output json", d, c.setting))
	if err != nil {
		t.Fatalf("%v\n%s", err, said.Err)
	}
	r, err := result.Read(strings.NewReader(said.Out))
	if err != nil {
		t.Fatal(err)
	}
	found := slices.IndexFunc(r.Causes, func(f result.Cause) bool { return f.Setting == c.setting && f.Object == "server:"+name })
	if found < 0 {
		t.Fatalf("%s of server:%s is not among the causes: %+v", c.setting, name, r.Causes)
	}
	cause := r.Causes[found]
	measured := slices.ContainsFunc(r.Samples, func(s result.Sample) bool { return s.Target == cause.Target && s.Error == "" })
	if !strings.Contains(cause.Why, c.why) || cause.Target == "" || !measured {
		t.Errorf("%+v; measured with it flipped: %t\n%s", cause, measured, said.Err)
	}
	t.Log(cause.Why)
	if diff := cmp.Diff(strings.Split(before, "\n"), strings.Split(m.Must(at(c.show)), "\n")); diff != "" {
		t.Errorf("left changed (- was, + is):\n%s", diff)
	}
}
