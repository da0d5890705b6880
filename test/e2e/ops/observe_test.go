package ops

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"testing"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/test/e2e/harness"
)

// What an edge between tunnels and an uplink tells of its flow cache, its hooks and
// its counters, in the picture of uplinkPicture.

func TestObserve(t *testing.T) {
	t.Parallel()
	n := harness.NewUnderlay(t, harness.UplinkPicture, 2, 4)
	red1 := n.Guest("red1", 0, 1, n.Hosts[0], "r0", 1450)
	red2 := n.Guest("red2", 0, 2, n.Hosts[1], "r0", 1450)
	out := n.Outside(n.Hosts[0], "up0")
	// up0 takes redirected packets, u0 does not: that is up to the other end of a veth.
	n.Gro(out, "lan0", "on")
	n.Gro(n.Sw, "e1", "off")
	n.Record()
	n.EdgesUp("\n  transit: {mode: native}"+harness.UplinkSpec, `
  segments:
  - {name: red, vni: 100, remotes: REMOTES}
  ports:
  - {name: r0, interface: r0, segment: red}
`)
	n.Pings(harness.Ways(red1, red2)...)
	n.Pings(harness.Direction{Name: "red2 to outside", From: red2.Host, To: out, Addr: harness.Outside4})
	n.StopCaptures()
	t.Run("Interfaces", func(t *testing.T) { commandInterfaces(n.Sub(t)) })
	t.Run("FlowsStats", func(t *testing.T) { commandFlowsStats(n.Sub(t)) })
	t.Run("Metrics", func(t *testing.T) { commandMetrics(n.Sub(t)) })
}

func commandInterfaces(n *harness.Hub) {
	const header = "NAME INDEX ROLES HOOK TAKES-REDIRECTED MTU WHY"
	n.Prints([]string{"interfaces", "-o", "wide"}, header, "underlay xdp no 1500 it does not accept redirected packets (a veth does while", "uplink xdp yes 1500 -")
	n.Prints([]string{"ports", "-o", "wide"}, "NAME INTERFACE INDEX VLAN SEGMENT STATE HOOK", header)
	n.Once("hooks are what the kernel has", func() error {
		interfaces, err := n.Ask("edge1").Interfaces(n.Ctx)
		if err != nil || len(interfaces) != 2 {
			return errors.Join(fmt.Errorf("%+v, want u0 and up0", interfaces), err)
		}
		for i, want := range []struct{ name, role string }{{"u0", "underlay"}, {"up0", "uplink"}} {
			got := interfaces[i]
			mode, err := xdpMode(n, got.Name)
			if err != nil || got.Name != want.name || len(got.Roles) != 1 || got.Roles[0] != want.role || got.MTU == 0 || got.Ifindex == 0 {
				return errors.Join(fmt.Errorf("%+v, want %s as %s", got, want.name, want.role), err)
			}
			hook := map[string]string{"": "tcx", "xdp": "xdp", "xdpgeneric": "xdpgeneric"}[mode]
			if got.Hook != hook || (got.Hook == "xdp") != (got.HookWhy == "") {
				return fmt.Errorf("%+v, and the kernel says %q", got, mode)
			}
		}
		return nil
	})
}

// xdpMode is how iproute2 calls an XDP program of edge1's interface, "" without one.
func xdpMode(n *harness.Hub, name string) (string, error) {
	text, err := n.Hosts[0].Output(n.Ctx, "ip", "link", "show", "dev", name)
	return regexp.MustCompile(`\bxdp(generic|offload)?\b`).FindString(string(text)), err
}

func commandFlowsStats(n *harness.Hub) {
	n.Prints([]string{"flows", "--stats"}, "Flow cache: on,", "Alarm: none", "CACHE USED SIZE FILLED MEMORY EVICTED", "tc ",
		"EVENT COUNT SHARE DESCRIPTION", "packets that found a valid decision")
	n.Prints([]string{"flows", "--stats", "--interval", "100ms"}, "Last 0.", "EVICTED/S", "COUNT/S SHARE-NOW")
	n.Once("the outcomes of look-ups add up", func() error {
		text, err := n.Asks("flows", "--stats", "--interval", "100ms", "-o", "json")
		var f api.FlowCacheInfo
		if err := errors.Join(err, json.Unmarshal([]byte(text), &f)); err != nil {
			return err
		}
		sum := uint64(0)
		for _, e := range f.Events {
			if e.LookUp {
				sum += e.Count
			}
		}
		if !f.Enabled || f.Alarm != "" || f.LookUps == 0 || sum != f.LookUps || f.HitRatio < 0 || f.HitRatio > 1 || f.Rates == nil || f.Rates.Seconds < 0.1 {
			return errors.New(text)
		}
		for _, c := range f.Caches {
			if c.Bytes == 0 || c.Size == 0 || c.Used > c.Size {
				return fmt.Errorf("cache %+v", c)
			}
		}
		return nil
	})
}

func commandMetrics(n *harness.Hub) {
	n.Once("metrics are those of the other commands", func() error {
		text, err := n.Asks("metrics")
		if err != nil {
			return err
		}
		for line, least := range map[string]float64{
			`selvage_edge_info{edge="` + n.Edges["edge1"].Name + `"`:   1,
			`selvage_port_up{interface="r0",port="r0"`:                 1,
			`selvage_port_receive_packets_total{port="r0"}`:            4,
			`selvage_remote_up{remote="192.0.2.2"}`:                    1,
			`selvage_remote_receive_packets_total{remote="192.0.2.2"}`: 4,
			`selvage_fdb_entries`:                                      2,
			`selvage_flow_cache_lookups_total{result="miss"}`:          2,
			`selvage_flow_cache_entries_limit{cache="tc"}`:             1024,
			`selvage_flow_cache_alarm{kind="thrashing"}`:               0,
			`selvage_interface_hook_info{hook="xdp",interface="u0"`:    1,
			`selvage_drops_total{reason="spoofed-mac"}`:                0,
		} {
			if value, err := harness.Metric(text, line); err != nil || value < least {
				return errors.Join(fmt.Errorf("%s is %v, want %v at least, in\n%s", line, value, least, text), err)
			}
		}
		return nil
	})
}
