package duplicate

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/overlay"
)

var (
	own     = overlay.MAC{2, 0, 0, 0, 0, 1}
	foreign = overlay.MAC{2, 0, 0, 0, 0, 9}
	wan     = Link{Interface: "eth1", Ifindex: 3, MAC: own}
	pool    = Address{gateway.Place{Uplink: "wan", Addr: netip.MustParseAddr("198.51.100.25")}, wan, true}
	uplink  = Address{gateway.Place{Uplink: "wan", Addr: netip.MustParseAddr("198.51.100.2")}, wan, false}
	tep     = Address{gateway.Place{Addr: netip.MustParseAddr("192.0.2.1")}, Link{Interface: "eth0", Ifindex: 2, MAC: overlay.MAC{2, 1}}, false}
)

// place is a network in which other hosts have addresses.
type place struct {
	others   map[netip.Addr]overlay.MAC
	asked    int
	defended []netip.Addr
	withheld map[gateway.Place]bool
	refused  uint64
	gone     bool // the edge no longer answers for the pool
}

func (p *place) watch(t *testing.T) *Watch {
	w := New(Options{
		Addresses: func() ([]Address, []overlay.MAC) {
			list := []Address{tep, uplink, pool}
			if p.gone {
				list = list[:2]
			}
			return list, []overlay.MAC{own, tep.MAC}
		},
		Refused: func() (uint64, error) { return p.refused, nil },
		Ask: func(_ context.Context, _ Link, addrs []netip.Addr, probes int) (map[netip.Addr]overlay.MAC, error) {
			p.asked++
			<-time.After(time.Duration(probes) * probeEvery)
			found := map[netip.Addr]overlay.MAC{}
			for _, a := range addrs {
				if mac, has := p.others[a]; has {
					found[a] = mac
				}
			}
			return found, nil
		},
		Defend:   func(_ Link, a []netip.Addr, _ bool) error { p.defended = append(p.defended, a...); return nil },
		Withhold: func(places map[gateway.Place]bool) { p.withheld = places },
		Enter:    func() error { return nil }, Log: slog.New(slog.DiscardHandler), Report: func(string, error) {},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

// says fails where the problems do not name what is wanted.
func says(t *testing.T, w *Watch, words ...string) {
	t.Helper()
	list := w.Problems()
	if len(list) != len(words) {
		t.Fatalf("problems %v, want %q", list, words)
	}
	for i, word := range words {
		if !strings.Contains(list[i].Text, word) || !strings.Contains(list[i].Text, foreign.String()) {
			t.Errorf("problem %q, want %q", list[i].Text, word)
		}
	}
}

// What another host has when the edge begins is confirmed before it is said, and of an uplink defended each 10 s until it is over.
func TestHeldByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := place{others: map[netip.Addr]overlay.MAC{tep.Addr: foreign, uplink.Addr: foreign, pool.Addr: tep.MAC}} // the last is this host's
		w := p.watch(t)
		<-time.After(time.Second)
		says(t, w)
		<-time.After(4 * time.Second)
		says(t, w, "tunnel endpoint 192.0.2.1 at interface eth0", "address 198.51.100.2 of uplink wan")
		<-time.After(25 * time.Second)
		if n := len(p.defended); n < 2 || n > 4 || slices.Contains(p.defended, tep.Addr) {
			t.Errorf("in half a minute %v are defended", p.defended)
		}
		p.others, p.defended = nil, nil
		<-time.After(12 * time.Second)
		says(t, w)
		if !slices.Equal(p.defended, []netip.Addr{uplink.Addr}) {
			t.Errorf("when the other has gone, the network is told of %v", p.defended)
		}
		if len(p.withheld) > 0 {
			t.Errorf("withheld are %v, which were announced", p.withheld)
		}
	})
}

// A message that the data path refused has the edge look soon, and not for each.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p place
		w := p.watch(t)
		<-time.After(20 * time.Second)
		p.others = map[netip.Addr]overlay.MAC{pool.Addr: foreign}
		p.refused++
		<-time.After(8 * time.Second)
		says(t, w, "egress address 198.51.100.25 at uplink wan")
		p.others = nil
		<-time.After(12 * time.Second)
		before := p.asked
		for range 60 {
			p.refused++
			<-time.After(time.Second)
		}
		if n := p.asked - before; n > 2*7 {
			t.Errorf("asked %d times in a minute", n)
		}
	})
}

// Who said that it has an address, and is gone when it is asked, is in the tables of neighbours: the network is told once.
func TestRefusedAndGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p place
		w := p.watch(t)
		<-time.After(20 * time.Second)
		p.refused++
		<-time.After(time.Minute)
		says(t, w)
		if !slices.Equal(p.defended, []netip.Addr{uplink.Addr, pool.Addr}) {
			t.Errorf("the network is told of %v", p.defended)
		}
	})
}

// A new address that another has is withheld until it is free.
func TestNewAddressOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p place
		watch := p.watch(t)
		<-time.After(time.Second)
		p.others = map[netip.Addr]overlay.MAC{pool.Addr: foreign}
		begin := time.Now()
		if free := watch.Free(t.Context(), []gateway.Place{pool.Place}); len(free) > 0 || !p.withheld[pool.Place] {
			t.Errorf("free are %v, withheld %v", free, p.withheld)
		}
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("it took %s", took)
		}
		says(t, watch, "this edge does not answer for it")
		<-time.After(time.Minute)
		says(t, watch, "this edge does not answer for it")
		if len(p.defended) > 0 {
			t.Errorf("%v are defended, which the edge does not have", p.defended)
		}
		p.others = nil
		<-time.After(12 * time.Second)
		says(t, watch)
		if len(p.withheld) > 0 {
			t.Errorf("withheld are %v, which are free", p.withheld)
		}
		if free := watch.Free(t.Context(), []gateway.Place{pool.Place}); len(free) != 1 {
			t.Error("it is not free")
		}
	})
}

// Each frame says what it is built to say.
func TestClaim(t *testing.T) {
	for _, addr := range []netip.Addr{pool.Addr, netip.MustParseAddr("2001:db8:5::25")} {
		if got, mac := claim(datapath.AddressAnnouncement(foreign, 0, addr, true)); got != addr || mac != foreign {
			t.Errorf("an announcement of %s says %s at %s", addr, got, mac)
		}
		probe := datapath.AddressProbe(foreign, 0, addr)
		if got, _ := claim(probe); got.IsValid() {
			t.Errorf("a probe for %s says that %s is somewhere", addr, got)
		}
		for n := range probe {
			claim(probe[:n])
		}
	}
}

// Of gateways that start together each answers for all addresses for a moment: that is no conflict.
func TestGatewaysThatStartTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p place
		w := p.watch(t)
		<-time.After(time.Second) // the look at the start
		p.others = map[netip.Addr]overlay.MAC{pool.Addr: foreign}
		time.AfterFunc(700*time.Millisecond, func() { p.others = nil })
		if free := w.Free(t.Context(), []gateway.Place{pool.Place}); len(free) != 1 || len(p.withheld) > 0 {
			t.Errorf("free are %v, withheld %v", free, p.withheld)
		}
		says(t, w)
	})
}

// An address that another gateway took over while it was probed is that gateway's.
func TestTakenOverWhileProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := place{others: map[netip.Addr]overlay.MAC{pool.Addr: foreign}, gone: true}
		w := p.watch(t)
		p.gone = false
		<-time.After(time.Second) // the look at the start
		time.AfterFunc(100*time.Millisecond, func() { p.gone = true })
		if free := w.Free(t.Context(), []gateway.Place{pool.Place}); len(free) > 0 || len(p.withheld) > 0 {
			t.Errorf("free are %v, withheld %v", free, p.withheld)
		}
	})
}

// An interface that is down or absent has a problem of its own; any other failure to ask is one.
func TestInterfaceThatIsAway(t *testing.T) {
	for err, want := range map[error]bool{unix.ENETDOWN: false, unix.ENODEV: false, unix.ENXIO: false, unix.EPERM: true} {
		var reported error
		w := New(Options{
			Ask:    func(context.Context, Link, []netip.Addr, int) (map[netip.Addr]overlay.MAC, error) { return nil, err },
			Report: func(_ string, err error) { reported = err },
		})
		if w.ask(t.Context(), []Address{tep}, nil, 1); (reported != nil) != want {
			t.Errorf("%v is reported as %v", err, reported)
		}
	}
}
