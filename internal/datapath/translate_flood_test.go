package datapath

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netns"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// flood offers packets of new connections of dave all the time until f returns, and hands
// the sources of those that leave to check. It returns how many left.
func (w *world) flood(t *testing.T, f func(), check func(src netip.Addr)) (left int) {
	t.Helper()
	var stop atomic.Bool
	done := make(chan error, 1)
	go func() {
		done <- w.inside(func() error {
			frame := pkttest.Frame(dave, gatewayMAC, "udp 10.0.2.13:5000 > 203.0.113.5:53 30")
			for i := 0; !stop.Load(); i++ {
				binary.BigEndian.PutUint16(frame[etherLen+18:], uint16(i)) // another host of that network
				r, err := runProgram(w.dp.prog.objs.FromPort, w.dev["p2"].Index, packet{bytes: frame})
				if err != nil {
					return err
				}
				if r.verdict == forwarded && bytes.Equal(r.out[:6], hardware(ispMAC)) {
					left++
					check(addrOfBytes(r.out[etherLen+12:][:4]))
				}
			}
			return nil
		})
	}()
	f()
	stop.Store(true)
	must(t, <-done)
	return left
}

// inside runs f on a thread in the world's namespace that nobody uses afterwards.
func (w *world) inside(f func() error) error {
	runtime.LockOSThread()
	if err := netns.Set(w.ns); err != nil {
		return err
	}
	return f()
}

// While policies and routes come and go together no packet leaves as it came, be it that a policy translates it, the uplink or both.
func TestNothingLeavesBetween(t *testing.T) {
	for _, c := range []struct {
		name          string
		with, without []string
	}{
		{"by a policy", []string{"web"}, nil},
		{"by one of two policies", []string{"web", "two"}, []string{"two"}},
		{"by the uplink", []string{"uplink/up"}, nil},
		{"by both", []string{"web", "uplink/up"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := natWorld(t, ways()[0])
			with := onlyEgresses(w.tables, c.with)
			without := onlyEgresses(w.tables, c.without)
			without.Routers = []fib.Router{{Name: "main", Routes: slices.DeleteFunc(slices.Clone(with.Routers[0].Routes), func(r fib.Route) bool {
				return r.Prefix.Bits() == 0
			})}}
			w.tables = with
			w.apply(t)
			allowed := natAddrs(webFirst4, webSecond4, uplink4)
			left := w.flood(t, func() {
				for i := range 16 {
					w.tables = []fib.Tables{without, with}[i%2]
					w.apply(t)
				}
			}, func(src netip.Addr) {
				if !slices.Contains(allowed, src) {
					t.Errorf("a packet left with the source %s", src)
				}
			})
			if left == 0 {
				t.Error("nothing left at all")
			}
		})
	}
}

// onlyEgresses is t with these of its egresses, web for all sources and two for 10.0.3.0/24.
func onlyEgresses(t fib.Tables, names []string) fib.Tables {
	var e overlay.Egress
	all := t.Egress
	t.Egress, t.EgressRules = nil, nil
	for _, egress := range all {
		if !slices.Contains(names, egress.Name) {
			t.Segments = slices.DeleteFunc(slices.Clone(t.Segments), func(s overlay.Segment) bool { return s.Name == egress.Segment })
			continue
		}
		t.Egress = append(t.Egress, egress)
		p := overlay.EgressPolicy{Name: egress.Name, Router: "main"}
		if egress.Name == "two" {
			p.From = []overlay.Member{{Prefix: netip.MustParsePrefix("10.0.3.0/24")}}
		}
		if egress.Segment != "" {
			e.Policies = append(e.Policies, p)
		}
	}
	if len(e.Policies) > 0 {
		t.EgressRules = natRules(&t, e)
	}
	return t
}
