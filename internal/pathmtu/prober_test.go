package pathmtu

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

/*
  near                         router                          far
 ┌──────────────────┐  1500  ┌─────────────────────┐  1400  ┌───────────────────┐
 │ u0 192.0.2.1/25  ├────────┤ r0 .2        .129 r1├────────┤ u0 192.0.2.130/25 │
 │ 2001:db8:1::1/64 │        │ :1::2        :2::1  │        │ 2001:db8:2::2/64  │
 └──────────────────┘        └─────────────────────┘        └───────────────────┘
*/

// testTimeout is that of a try: far above a round trip of the picture, also on a
// busy machine.
const testTimeout = 200 * time.Millisecond

type bench struct {
	t                 *testing.T
	lab               *topo.Lab
	near, router, far *topo.Host
}

func newBench(t *testing.T, farMTU int) *bench {
	tier.Root(t)
	t.Parallel()
	lab, err := topo.New(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, lab: lab}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(lab.Picture())
		}
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	for name, host := range map[string]**topo.Host{"near": &b.near, "router": &b.router, "far": &b.far} {
		*host, err = lab.Host(name)
		b.must(err)
	}
	b.must(b.router.SysctlSet("net/ipv4/ip_forward", "1"))
	b.must(b.router.SysctlSet("net/ipv6/conf/all/forwarding", "1"))
	end := func(h *topo.Host, name, addr4, addr6 string) topo.LinkEnd {
		return topo.LinkEnd{Host: h, Name: name, Addrs: []netip.Prefix{netip.MustParsePrefix(addr4), netip.MustParsePrefix(addr6)}}
	}
	b.must(lab.Link(t.Context(),
		end(b.near, "u0", "192.0.2.1/25", "2001:db8:1::1/64"), end(b.router, "r0", "192.0.2.2/25", "2001:db8:1::2/64"), 1500))
	b.must(lab.Link(t.Context(),
		end(b.router, "r1", "192.0.2.129/25", "2001:db8:2::1/64"), end(b.far, "u0", "192.0.2.130/25", "2001:db8:2::2/64"), farMTU))
	b.ip(b.near, "route add default via 192.0.2.2")
	b.ip(b.near, "route add default via 2001:db8:1::2")
	b.ip(b.far, "route add default via 192.0.2.129")
	b.ip(b.far, "route add default via 2001:db8:2::1")
	for _, remote := range []netip.Addr{them4, them6} {
		b.must(b.near.Reach(t.Context(), remote))
	}
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) ip(h *topo.Host, args string) string {
	b.t.Helper()
	out, err := h.Output(b.t.Context(), append([]string{"ip"}, strings.Fields(args)...)...)
	b.must(err)
	return string(out)
}

// setFarMTU sets that of both ends of the second link.
func (b *bench) setFarMTU(mtu int) {
	b.t.Helper()
	b.must(b.router.SetMTU("r1", mtu))
	b.must(b.far.SetMTU("u0", mtu))
}

// swallow makes the router a black hole: what it sends itself, as an ICMP error,
// goes nowhere.
func (b *bench) swallow() {
	b.t.Helper()
	b.ip(b.router, "-4 rule add iif lo blackhole")
	b.ip(b.router, "-6 rule add iif lo blackhole")
}

// mute lets far answer no echo request.
func (b *bench) mute(h *topo.Host) {
	b.t.Helper()
	b.must(h.SysctlSet("net/ipv4/icmp_echo_ignore_all", "1"))
	b.must(h.SysctlSet("net/ipv6/icmp/echo_ignore_all", "1"))
}

func (b *bench) open(t *testing.T, source netip.Addr) *Prober {
	t.Helper()
	var p *Prober
	err := b.near.Do(func() (err error) {
		p, err = Open(source)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	p.timeout = testTimeout
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// families runs a test with a Prober of each.
func (b *bench) families(test func(t *testing.T, p *Prober, remote netip.Addr)) {
	b.t.Run("IPv4", func(t *testing.T) { test(t, b.open(t, us4), them4) })
	b.t.Run("IPv6", func(t *testing.T) { test(t, b.open(t, us6), them6) })
}

// find probes and checks the result. It returns how many packets that took.
func find(t *testing.T, p *Prober, remote netip.Addr, ceiling, want int) (packets int) {
	t.Helper()
	s, err := p.newSearch(remote, ceiling)
	if err == nil {
		err = s.run(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if s.answered != want {
		t.Errorf("path MTU to %s is %d, want %d", remote, s.answered, want)
	}
	return s.packets
}

func TestNarrowLink(t *testing.T) {
	b := newBench(t, 1400)
	b.families(func(t *testing.T, p *Prober, remote netip.Addr) {
		// Base, ceiling, what the router said, one byte more.
		if packets := find(t, p, remote, 1500, 1400); packets > 6 {
			t.Errorf("%d packets, want 4 or, with losses, a few more", packets)
		}
		// The kernel has learned that MTU by now, which stops no probe.
		family := "-4"
		if remote.Is6() {
			family = "-6"
		}
		if route := b.ip(b.near, family+" route get "+remote.String()); !strings.Contains(route, "mtu 1400") {
			t.Errorf("the kernel did not learn the MTU: %s", route)
		}
		b.setFarMTU(1500)
		defer b.setFarMTU(1400)
		find(t, p, remote, 1500, 1500)
	})
}

func TestNarrowLinkBelowTheBase(t *testing.T) {
	b := newBench(t, 1280)
	b.families(func(t *testing.T, p *Prober, remote netip.Addr) { find(t, p, remote, 1500, 1280) })
	b.setFarMTU(1000)
	find(t, b.open(t, us4), them4, 1500, 1000)
}

func TestBlackHole(t *testing.T) {
	b := newBench(t, 1400)
	b.swallow()
	b.families(func(t *testing.T, p *Prober, remote netip.Addr) {
		packets := find(t, p, remote, 1500, 1400)
		if packets < 3*maxTries {
			t.Errorf("%d packets: the router does not swallow its errors", packets)
		}
		b.setFarMTU(1500)
		defer b.setFarMTU(1400)
		find(t, p, remote, 1500, 1500)
	})
}

func TestFullMTU(t *testing.T) {
	b := newBench(t, 1500)
	b.families(func(t *testing.T, p *Prober, remote netip.Addr) {
		if packets := find(t, p, remote, 1500, 1500); packets > 4 {
			t.Errorf("%d packets, want 2 or, with losses, a few more", packets)
		}
		r, err := p.Probe(t.Context(), remote, 1500, 0)
		if err != nil || r.State != Confirmed || r.MTU != 1500 || time.Since(r.When) > time.Minute {
			t.Errorf("got %+v, %v, want 1500 confirmed now", r, err)
		}
		// A ceiling that this host's own interface cannot send.
		find(t, p, remote, 9000, 1500)
		// A ceiling below what the path carries.
		find(t, p, remote, 1300, 1300)
	})
}

func TestUnanswered(t *testing.T) {
	b := newBench(t, 1500)
	b.mute(b.far)
	b.families(func(t *testing.T, p *Prober, remote netip.Addr) {
		r, err := p.Probe(t.Context(), remote, 1500, 0)
		if err != nil || r.State != Unanswered || r.MTU != 0 {
			t.Errorf("got %+v, %v, want unanswered and no error", r, err)
		}
	})
}

func TestCancel(t *testing.T) {
	b := newBench(t, 1500)
	b.mute(b.far)
	b.families(func(t *testing.T, p *Prober, remote netip.Addr) {
		p.timeout = time.Minute
		ctx, cancel := context.WithCancel(t.Context())
		var cancelled time.Time
		time.AfterFunc(50*time.Millisecond, func() {
			cancelled = time.Now()
			cancel()
		})
		_, err := p.Probe(ctx, remote, 1500, 0)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		if d := time.Since(cancelled); d > 100*time.Millisecond {
			t.Errorf("returned %v after it was cancelled, want 100 ms at most", d)
		}
		if len(p.probes) != 0 {
			t.Errorf("%d probes are left", len(p.probes))
		}
	})
}

func TestProbeErrors(t *testing.T) {
	b := newBench(t, 1500)
	p4, p6 := b.open(t, us4), b.open(t, us6)
	for _, c := range []struct {
		p       *Prober
		remote  netip.Addr
		ceiling int
		want    string
	}{
		{p4, them6, 1500, "different families"},
		{p6, them4, 1500, "different families"},
		{p4, netip.Addr{}, 1500, "choose a unicast address"},
		{p4, netip.MustParseAddr("224.0.0.1"), 1500, "choose a unicast address"},
		{p6, netip.MustParseAddr("fe80::1%u0"), 1500, "choose a unicast address"},
		{p4, them4, 67, "67 bytes is below the 68"},
		{p6, them6, 1279, "1279 bytes is below the 1280"},
	} {
		_, err := c.p.Probe(t.Context(), c.remote, c.ceiling, 0)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("probe of %s up to %d: %v, want an error with %q", c.remote, c.ceiling, err, c.want)
		}
	}
	b.ip(b.near, "-4 route del default")
	if _, err := p4.Probe(t.Context(), them4, 1500, 0); err == nil || !strings.Contains(err.Error(), "unreachable") {
		t.Errorf("probe without a route: %v, want an error", err)
	}
	err := b.near.Do(func() error {
		_, err := Open(other4)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), other4.String()) {
		t.Errorf("open with an address of another host: %v, want an error that names it", err)
	}
}

// Many searches share one socket, and a Monitor runs them.
func TestMonitorOfManyRemotes(t *testing.T) {
	b := newBench(t, 1400)
	p := b.open(t, us4)
	ceilings := map[netip.Addr]int{}
	for remote := them4; len(ceilings) < 2*maxSearches; remote = remote.Next() {
		ceilings[remote] = 1500
		if remote != them4 {
			b.must(b.far.AddAddr("u0", netip.PrefixFrom(remote, 32)))
		}
	}
	m := NewMonitor(p, slog.New(slog.DiscardHandler))
	defer m.Close()
	m.Set(ceilings)
	deadline := time.After(20 * time.Second)
	for {
		confirmed := 0
		for _, r := range m.Results() {
			if r.State == Confirmed && r.MTU == 1400 {
				confirmed++
			}
		}
		if confirmed == len(ceilings) {
			return
		}
		select {
		case <-m.Changed():
		case <-deadline:
			t.Fatalf("%d of %d paths are confirmed after 20 s: %v", confirmed, len(ceilings), m.Results())
		}
	}
}
