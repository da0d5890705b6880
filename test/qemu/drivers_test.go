package qemu

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/doctor"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/test/debian"
	"github.com/selvage/selvage/test/tier"
)

/*
world is a script for one of the drivers:

	tester: tx ----- router: in  out ----- rx of tester
	                192.0.2.1  198.51.100.1
*/
const world = `set -e
ip netns add tester%[1]d
ip netns add router%[1]d
ip link set tx%[1]d netns tester%[1]d
ip link set rx%[1]d netns tester%[1]d
ip link set in%[1]d netns router%[1]d
ip link set out%[1]d netns router%[1]d
ip netns exec tester%[1]d sysctl -qw net.ipv6.conf.all.disable_ipv6=1
ip netns exec router%[1]d sysctl -qw net.ipv4.ip_forward=1
ip -n router%[1]d addr add 192.0.2.1/24 dev in%[1]d
ip -n router%[1]d addr add 198.51.100.1/24 dev out%[1]d
ip -n router%[1]d link set in%[1]d up
ip -n router%[1]d link set out%[1]d up
ip -n tester%[1]d link set tx%[1]d up
ip -n tester%[1]d link set rx%[1]d up`

// Each driver on Debian 13's kernel. All is one machine's.
func TestDrivers(t *testing.T) {
	tier.Long(t, "nothing: there are no such cards without QEMU; veths have tests of the same in lab and internal/doctor")
	m := withDrivers(t, "trixie")
	if release := m.Must("uname -r"); !strings.HasPrefix(release, "6.12.") {
		t.Fatalf("the machine has Linux %s", release)
	}
	for d, driver := range drivers {
		t.Run(driver.name, func(t *testing.T) {
			m := m.In(t)
			m.Must(fmt.Sprintf(world, d))
			up(m, d)
			t.Run("Doctor", func(t *testing.T) { examined(t, m.In(t), d) })
			t.Run("Restore", func(t *testing.T) { restored(t, m.In(t), d) })
			if _, ok := planted[driver.name]; ok {
				t.Run("Why", func(t *testing.T) { proposed(t, m.In(t), d) })
			}
			t.Run("RFC2544", func(t *testing.T) { router(t, m.In(t), d) })
		})
	}
}

// up is the fact that a tester's links are, which drivers take down for changes.
func up(m *debian.Machine, d int) {
	m.Fact("both links are up", fmt.Sprintf("[ $(ip -o -n tester%d link | grep -c 'state UP') = 2 ]", d))
}

// nicOf is what the doctor says of a tester's interface.
func nicOf(t *testing.T, m *debian.Machine, d int, name string) doctor.NIC {
	t.Helper()
	up(m, d)
	var r doctor.Report
	if err := json.Unmarshal([]byte(m.Must(fmt.Sprintf("ip netns exec tester%d selvage doctor --output json", d))), &r); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(r.Inventory.Links, func(l doctor.Link) bool { return l.Name == name })
	if at < 0 || r.Inventory.Links[at].NIC == nil {
		t.Fatalf("the doctor knows nothing of %s", name)
	}
	return *r.Inventory.Links[at].NIC
}

// facts are those of QEMU's cards; nil is what their drivers do not tell.
var facts = map[string]struct {
	ring     doctor.Ring
	channels *doctor.Channels
	pause    *doctor.Pause
	other    doctor.Ring // another size of rings, where it can be set
}{
	"virtio_net": {doctor.Ring{Rx: 256, RxMax: 256, Tx: 256, TxMax: 256}, &doctor.Channels{Combined: 2, CombinedMax: queues}, nil, doctor.Ring{Rx: 128, RxMax: 256, Tx: 64, TxMax: 256}},
	"e1000e":     {doctor.Ring{Rx: 256, RxMax: 4096, Tx: 256, TxMax: 4096}, nil, &doctor.Pause{Autoneg: true, Rx: true, Tx: true}, doctor.Ring{Rx: 1024, RxMax: 4096, Tx: 512, TxMax: 4096}},
	"vmxnet3":    {doctor.Ring{Rx: 1024, RxMax: 4096, Tx: 512, TxMax: 4096}, &doctor.Channels{Combined: 2, CombinedMax: 2}, nil, doctor.Ring{Rx: 512, RxMax: 4096, Tx: 1024, TxMax: 4096}},
}

// examined: the doctor says of a driver what it is, also after it was changed.
func examined(t *testing.T, m *debian.Machine, d int) {
	want, name := facts[drivers[d].name], fmt.Sprintf("tx%d", d)
	n := nicOf(t, m, d, name)
	if n.Driver != drivers[d].name {
		t.Errorf("driver %q", n.Driver)
	}
	if diff := cmp.Diff(&want.ring, n.Ring); diff != "" {
		t.Errorf("rings (- want, + said):\n%s", diff)
	}
	if diff := cmp.Diff(want.channels, n.Channels); diff != "" {
		t.Errorf("channels (- want, + said):\n%s", diff)
	}
	if diff := cmp.Diff(want.pause, n.Pause); diff != "" {
		t.Errorf("pause (- want, + said):\n%s", diff)
	}
	if n.Hash4 != "" { // none of them tells what it hashes of UDP
		t.Errorf("RSS of UDP hashes %q", n.Hash4)
	}
	at := fmt.Sprintf("ip netns exec tester%d ethtool ", d)
	m.Must(fmt.Sprintf("%s-G %s rx %d tx %d", at, name, want.other.Rx, want.other.Tx))
	if diff := cmp.Diff(&want.other, nicOf(t, m, d, name).Ring); diff != "" {
		t.Errorf("rings that were changed (- want, + said):\n%s", diff)
	}
	m.Must(fmt.Sprintf("%s-G %s rx %d tx %d", at, name, want.ring.Rx, want.ring.Tx))
}

// settings are a script with all that lab offload changes at both ends.
func settings(d int) string {
	return fmt.Sprintf(`for end in tester%[1]d,tx%[1]d router%[1]d,in%[1]d; do
	for what in -k -g -c -a; do echo "== $end $what"; ip netns exec ${end%%,*} ethtool $what ${end#*,} 2>&1 || true; done
done`, d)
}

// restored: lab offload changes offloads and rings of both ends, and all is as it was in the end, also when it was killed.
func restored(t *testing.T, m *debian.Machine, d int) {
	m.Must(fmt.Sprintf("ip -n tester%d addr add 192.0.2.10/24 dev tx%[1]d", d))
	defer m.Must(fmt.Sprintf("ip -n tester%d addr del 192.0.2.10/24 dev tx%[1]d", d))
	m.Fact("the ends reach each other", fmt.Sprintf("ip netns exec tester%d ping -c 1 -W 1 192.0.2.1", d))
	before := m.Must(settings(d))
	only, has := "all-off", facts[drivers[d].name]
	if has.ring.Rx < has.ring.RxMax {
		only += ",rings-max"
	}
	if has.pause != nil {
		only += ",no-pause"
	}
	for _, killed := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		run, err := m.Begin(ctx, fmt.Sprintf("cd /root && exec selvage-lab offload --host ns:tester%d:tx%[1]d --host ns:router%[1]d:in%[1]d --path direct=192.0.2.1 "+
			"--only %s --writes 64 --flows 2 --rounds 1 --slice 3s --output json", d, only))
		if err != nil {
			t.Fatal(err)
		}
		off := fmt.Sprintf("ip netns exec router%d ethtool -k in%[1]d | grep -q '^generic-receive-offload: off'", d)
		m.Fact("all offloads are off", off)
		if killed {
			m.Must("pkill -KILL -o -f 'selvage-lab offload'")
		}
		r, err := run.Wait(ctx)
		switch {
		case killed && err == nil:
			t.Error("it was not killed")
		case !killed && err != nil:
			t.Fatal(err)
		case !killed:
			tested(t, r.Out, strings.Split(only, ","))
		}
		m.Fact("offloads are on again", "! "+off)
		up(m, d)
		if !killed {
			if diff := cmp.Diff(strings.Split(before, "\n"), strings.Split(m.Must(settings(d)), "\n")); diff != "" {
				t.Errorf("left changed (- was, + is):\n%s", diff)
			}
			continue
		}
		m.Fact("all is as it was", fmt.Sprintf("[ \"$(%s)\" = '%s' ]", settings(d), before))
	}
}

// tested: a result has a sample without an error of each state.
func tested(t *testing.T, output string, states []string) {
	t.Helper()
	r, err := result.Read(strings.NewReader(output))
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range states {
		has := slices.ContainsFunc(r.Samples, func(s result.Sample) bool { return strings.HasPrefix(s.Case, state) && s.Error == "" })
		if !has {
			t.Errorf("no sample of %s: %+v", state, r.Samples)
		}
	}
}
