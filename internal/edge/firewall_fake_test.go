package edge

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
)

// walls are what the fake data path says of its firewall.
type walls struct {
	gcStats  datapath.GCStats
	rules    []datapath.RuleCounters
	sessions []datapath.Session
	cached   [2]datapath.Cached // of every session
	lines    []datapath.LogLine // not yet read
}

// wall is a firewall that lets web traffic pass.
func wall() *overlay.Firewall {
	return &overlay.Firewall{
		Default: overlay.Drop, NonIP: overlay.Allow, Sizes: overlay.ConnectionSizes{Connections: 1000, HalfOpen: 100},
		Timeouts: overlay.DefaultTimeouts, LogRate: 10,
		Rules: []overlay.Rule{
			{Section: "app", Name: "web", Verdict: overlay.Allow, Direction: overlay.Both, Services: []overlay.Service{to(6, 443)}},
			{Section: "app", Name: "dns", Verdict: overlay.Allow, Direction: overlay.Both, Services: []overlay.Service{to(17, 53)}},
			{Section: "app", Name: "web-again", Verdict: overlay.Drop, Direction: overlay.In, Services: []overlay.Service{to(6, 443)}},
		},
	}
}

func to(proto int, port uint16) overlay.Service {
	return overlay.Service{Protocol: proto, Ports: []overlay.PortRange{{First: port, Last: port}}, ICMPType: -1, ICMPCode: -1}
}

// guarded gives the world a firewall, and three sessions to it.
func (w *world) guarded() *world {
	w.config.Firewall = wall()
	host := func(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, n}) }
	web, dns := datapath.RuleName{Section: "app", Name: "web"}, datapath.RuleName{Section: "app", Name: "dns"}
	w.walls = walls{
		gcStats: datapath.GCStats{
			States: map[string]int{"established": 1, "opening": 1, "replied": 1}, Connections: 2, HalfOpen: 1, Waiting: 1,
			HalfOpens: map[string]datapath.HalfOpen{"p0": {In: 1, Limit: 50}},
		},
		rules: []datapath.RuleCounters{
			{RuleName: web, Connections: 2, Packets: 30, Bytes: 4000, Hit: true, IdleNS: 2e9}, {RuleName: dns, Connections: 1, Packets: 2, Bytes: 200, Hit: true},
			{RuleName: datapath.RuleName{Section: "app", Name: "web-again"}}, {RuleName: datapath.RuleName{Section: "default", Name: "edge"}},
		},
		sessions: []datapath.Session{
			{Port: "p0", Segment: "blue", Direction: overlay.Out, Src: host(1), Dst: host(9), SrcPort: 999, DstPort: 53, PeerSegment: "blue", Rule: dns, Current: true,
				Connection: datapath.Connection{Proto: 17, State: "replied", Answered: true, AgeNS: 3e9, IdleNS: 1e9,
					Orig: datapath.Counters{Packets: 1, Bytes: 100}, Reply: datapath.Counters{Packets: 1, Bytes: 100}}},
			{Port: "p0", Segment: "blue", Direction: overlay.In, Src: host(7), Dst: host(1), SrcPort: 4000, DstPort: 443, PeerSegment: "blue", Rule: web, Current: true,
				Connection: datapath.Connection{Proto: 6, State: "established", Answered: true, AgeNS: 60e9,
					Orig: datapath.Counters{Packets: 10, Bytes: 1000}, Reply: datapath.Counters{Packets: 20, Bytes: 3000}}},
			{Port: "p1", Segment: "blue", Direction: overlay.In, Src: host(7), Dst: host(2), SrcPort: 4001, DstPort: 443, Rule: web,
				Connection: datapath.Connection{Proto: 6, State: "opening", Orig: datapath.Counters{Packets: 1, Bytes: 60}}},
		},
		cached: [2]datapath.Cached{{Known: true, Fast: true, IdleNS: 1e6}, {Known: true, Fast: true, IdleNS: 5e8}},
	}
	return w
}

func (d fakeDataPath) Events() (map[string]uint64, error) {
	stats, err := d.Stats()
	return stats.Events, err
}

func (d fakeDataPath) Sweep() (datapath.GCStats, error) {
	err := d.read("sweep")
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	d.w.calls = append(d.w.calls, "sweep")
	return d.w.walls.gcStats, err
}

func (d fakeDataPath) FirewallTables(c datapath.GCStats) []datapath.Table {
	return []datapath.Table{
		{Name: datapath.TableConnections, Used: c.Connections, Size: 1000, Bytes: 192_000},
		{Name: datapath.TableLogs, Used: -1, Size: 4096, Bytes: 8192},
	}
}

func (d fakeDataPath) Rules() ([]datapath.RuleCounters, error) {
	err := d.read("rules")
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	return slices.Clone(d.w.walls.rules), err
}

func (d fakeDataPath) EachSession(do func(*datapath.Session) bool) error {
	err := d.read("sessions")
	d.w.mu.Lock()
	sessions := slices.Clone(d.w.walls.sessions)
	d.w.mu.Unlock()
	for i := range sessions {
		if !do(&sessions[i]) {
			break
		}
	}
	return err
}

func (d fakeDataPath) CachedSessions(sessions []datapath.Session) ([][2]datapath.Cached, error) {
	err := d.read("cached sessions")
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	return slices.Repeat([][2]datapath.Cached{d.w.walls.cached}, len(sessions)), err
}

func (d fakeDataPath) Logs(most int, do func(datapath.LogLine)) error {
	err := d.read("logs")
	d.w.mu.Lock()
	lines := d.w.walls.lines
	d.w.walls.lines = nil
	d.w.mu.Unlock()
	if len(lines) > most {
		err = fmt.Errorf("%d lines, more than %d", len(lines), most)
	}
	for _, l := range lines {
		do(l)
	}
	return err
}
