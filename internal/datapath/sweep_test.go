package datapath

import (
	"testing"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
	"github.com/selvage/selvage/test/pkttest"
)

// wall is a firewall that drops what no rule allows, before the ports of a world.
func wall(rules ...overlay.Rule) overlay.Firewall {
	return overlay.Firewall{
		Default: overlay.Drop, NonIP: overlay.Allow, Sizes: overlay.ConnectionSizes{Connections: 4096, HalfOpen: 512},
		Timeouts: overlay.DefaultTimeouts, LogRate: 100, Rules: rules,
	}
}

// allow is a rule of section "s" for UDP to a port.
func allow(name string, port uint16) overlay.Rule {
	return overlay.Rule{Section: "s", Name: name, Verdict: overlay.Allow, Direction: overlay.Both, Services: []overlay.Service{
		{Protocol: 17, Ports: []overlay.PortRange{{First: port, Last: port}}, ICMPType: -1, ICMPCode: -1},
	}}
}

// guard gives a world the firewall, as an edge does with a changed configuration.
func (w *world) guard(t testing.TB, fw overlay.Firewall) {
	t.Helper()
	guard(t, &w.cfg, &w.tables, fw)
}

func guard(t testing.TB, c *Config, tables *fib.Tables, fw overlay.Firewall) {
	t.Helper()
	var places []policy.Place
	for _, p := range tables.Ports {
		places = append(places, policy.Place{Name: p.Name, Port: p.Name, Segment: p.Segment})
	}
	guardAt(t, c, tables, fw, places...)
}

// guardAt is guard of some places alone.
func guardAt(t testing.TB, c *Config, tables *fib.Tables, fw overlay.Firewall, places ...policy.Place) {
	t.Helper()
	compiled, err := policy.Compile(fw, places)
	must(t, err)
	c.Firewall, tables.Firewall = &fw, compiled
}

// walledWorld has alice at p0 and bob at p1, with a firewall before each.
func walledWorld(t testing.TB, fw overlay.Firewall) *world {
	t.Helper()
	return newWorld(t, underIPv4, func(c *Config, tables *fib.Tables) {
		tables.Segments[0].Static = []overlay.StaticMAC{{MAC: macOf(alice), Port: "p0"}, {MAC: macOf(bob), Port: "p1"}}
		guard(t, c, tables, fw)
	})
}

// change applies another policy to the running programs.
func (w *world) change(t testing.TB, fw overlay.Firewall) {
	t.Helper()
	loaded := w.cfg
	w.guard(t, fw)
	w.cfg = loaded
	w.apply(t)
}

func udpTo(port string) []byte {
	return pkttest.Frame(alice, bob, "udp 10.0.0.1:1000 > 10.0.0.2:"+port+" 18")
}

func udpFrom(port string) []byte {
	return pkttest.Frame(bob, alice, "udp 10.0.0.2:"+port+" > 10.0.0.1:1000 18")
}

// sessions are all, by port.
func (w *world) sessions(t testing.TB) map[string][]Session {
	t.Helper()
	all := map[string][]Session{}
	err := w.dp.Firewall.EachSession(func(s *Session) bool {
		all[s.Port] = append(all[s.Port], *s)
		return true
	})
	must(t, err)
	return all
}

func (w *world) ruleCounters(t testing.TB) map[RuleName]RuleCounters {
	t.Helper()
	list, err := w.dp.Firewall.Rules()
	must(t, err)
	all := map[RuleName]RuleCounters{}
	for _, r := range list {
		all[r.RuleName] = r
	}
	return all
}

func (w *world) sweep(t testing.TB) GCStats {
	t.Helper()
	c, err := w.dp.Firewall.Sweep()
	must(t, err)
	return c
}

// The sweep counts what is there, by state and port, and sets the counts of half-open connections right.
func TestSweepCounts(t *testing.T) {
	w := walledWorld(t, wall(allow("dns", 53), allow("ntp", 123)))
	w.follow(t, []step{{"p0", udpTo("53"), "p1"}, {"p1", udpFrom("53"), "p0"}, {"p0", udpTo("123"), "p1"}, {"p0", udpTo("99"), "drop"}})
	wrong := bpfLimitUsage{}
	wrong.Used[bpfLimitedCountCOUNT_HALF_OPEN_IN] = 77
	must(t, w.dp.Limits.maps.OwnerUsages.Put(ownerIndex(w.dp.numbers.names.portIDs["p1"]), wrong))
	c := w.sweep(t)
	if c.Connections != 2 || c.HalfOpen != 2 || c.Waiting != 2 || c.Expired != 0 || c.States["replied"] != 2 || c.States["unreplied"] != 2 {
		t.Errorf("census %+v, want two of each", c)
	}
	if c.HalfOpens["p0"] != (HalfOpen{Out: 1}) || c.HalfOpens["p1"] != (HalfOpen{In: 1}) {
		t.Errorf("half-open %v, want one at each port", c.HalfOpens)
	}
	policies := 0
	for _, table := range w.dp.Firewall.FirewallTables(c) {
		if table.Bytes == 0 || table.Size == 0 {
			t.Errorf("table %+v, want its memory", table)
		}
		if table.Name == TablePolicy {
			policies++
			if size, bytes := w.firewallImage(t); table.Size != size || table.Bytes != bytes {
				t.Errorf("table %+v, in the kernel %d lines in %d bytes", table, size, bytes)
			}
		}
	}
	if policies != 1 {
		t.Errorf("%d tables of the policy, want one", policies)
	}
}

// firewallImage is what the kernel says of the image in force.
func (w *world) firewallImage(t testing.TB) (lines int, bytes uint64) {
	t.Helper()
	var id ebpf.MapID
	must(t, w.dp.prog.objs.Policy.Lookup(policyFirewall, &id))
	image, err := ebpf.NewMapFromID(id)
	must(t, err)
	defer image.Close()
	info, err := image.Info()
	must(t, err)
	bytes, _ = info.Memlock()
	return int(image.MaxEntries()), bytes
}
