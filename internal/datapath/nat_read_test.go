package datapath

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
)

func (w *world) natGCStats(t testing.TB) NATGCStats {
	t.Helper()
	c, err := w.dp.NATSessions.NATSweep()
	must(t, err)
	return c
}

// The sweep counts by state and by what shares ports, and removes what has expired with its return.
func TestNATSweep(t *testing.T) {
	w := natWorld(t, ways()[0])
	udp, echo := natRecord("two", 0), natRecord("uplink/up", 0)
	udp.Proto, udp.Bits = 17, 1
	echo.Proto, echo.EchoDir, echo.Bits = 1, 1, 1
	echo.Inside, echo.Outside = netip.AddrPortFrom(echo.Inside.Addr(), 9), netip.AddrPortFrom(echo.Outside.Addr(), 9)
	w.putNATSessions(t, udp, echo)
	for i := range 20 {
		w.putNATSessions(t, natRecord("web", i))
	}
	c := w.natGCStats(t)
	if c.Sessions != 22 || c.Replicas != 22 || c.Expired != 0 || c.States["established"] != 20 || c.States["unreplied"] != 1 || c.States["icmp"] != 1 {
		t.Errorf("census %+v", c)
	}
	list, err := w.dp.Egress.PortUsages(2, 0)
	must(t, err)
	first := natRecord("web", 0)
	want := PortUsage{Policy: "web", Router: "main", Proto: 6, Egress: first.Egress.Addr(), Outside: first.Outside, Used: 20, Size: 65535 - 1024 + 1}
	if len(list) != 2 || list[0] != want {
		t.Errorf("pressures %+v, want %+v first", list, want)
	}
	if wide, err := w.dp.Egress.PortUsages(10, 1<<16); err != nil || len(wide) != 1 || wide[0].Proto != 1 {
		t.Errorf("usages of 65536 identifiers: %+v, %v", wide, err)
	}
	for _, table := range w.dp.Egress.NATTables(c) {
		if table.Bytes == 0 || table.Size == 0 {
			t.Errorf("table %+v, want its memory", table)
		}
	}
	w.ageNATSessions(t, overlay.DefaultNATTimeouts.UDP)
	if c := w.natGCStats(t); c.Expired != 2 || c.Sessions != 20 {
		t.Errorf("census %+v after the time of UDP", c)
	}
	w.checkReturns(t)
	if list, err := w.dp.Egress.PortUsages(10, 0); err != nil || len(list) != 1 {
		t.Errorf("pressures %+v, %v", list, err)
	}
}

// News tell what began, was answered and ended, with records that another gateway takes.
func TestNATEvents(t *testing.T) {
	t.Parallel()
	w := natWorld(t, ways()[0], func(c *Config, _ *fib.Tables) { c.Egress.Log = true })
	natEvents := func() (list []NATEvent) {
		must(t, w.dp.NATSessions.ReadNATEvents(100, func(n *NATEvent) { list = append(list, *n) }))
		return list
	}
	natEvents()
	talk := w.talk(t)
	talk.follow(
		"bob: udp 10.0.1.11:1000 > 203.0.113.5:53 30 => isp: udp %a:$p > 203.0.113.5:53 30",
		"isp: udp 203.0.113.5:53 > %a:$p 40 => bob: udp 203.0.113.5:53 > 10.0.1.11:1000 40",
		"isp: udp 203.0.113.5:53 > %a:$p 40 => bob: udp 203.0.113.5:53 > 10.0.1.11:1000 40",
	)
	w.ageNATSessions(t, overlay.DefaultNATTimeouts.UDPReplied+time.Second)
	w.natGCStats(t)
	list := natEvents()
	var events []NATEventKind
	for _, n := range list {
		events = append(events, n.Event)
		if n.Session.Policy != "web" || n.Session.Inside != netip.MustParseAddrPort("10.0.1.11:1000") || n.Record.Policy != NameTag("web") ||
			n.Record.Egress != n.Session.Egress || n.Session.Via != w.family.remotes[0] {
			t.Errorf("news %+v", n)
		}
	}
	if want := []NATEventKind{NATCreated, NATEstablished, NATDeleted}; !reflect.DeepEqual(events, want) {
		t.Fatalf("events %v, want %v", events, want)
	}
	if taken, _ := w.putNATSessions(t, list[1].Record); taken != 1 {
		t.Error("the record of an answered session is not taken")
	}
	if len(natEvents()) != 0 {
		t.Error("the news came twice")
	}
}
