package datapath

import (
	"fmt"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// What the outer header takes from the configuration and from the inner packet. ECN always follows RFC 6040 section 4.1: the inner mark is copied.
func TestOuterFields(t *testing.T) {
	const (
		inner4 = "tos 0x2e ttl 17 df udp 10.0.0.1:53 > 10.0.0.2:53 40" // DSCP 11, ECT(0)
		inner6 = "tos 0x2d ttl 18 udp [2001:db8:1::1]:53 > [2001:db8:1::2]:53 40"
		may4   = "tos 3 udp 10.0.0.1:53 > 10.0.0.2:53 40"
	)
	type fields = map[string]func(*pkttest.Outer) // by the inner packet's words
	set := func(tos, ttl uint8, df bool) func(*pkttest.Outer) {
		return func(o *pkttest.Outer) { o.TOS, o.TTL, o.MayFragment = tos, ttl, !df }
	}
	inherit := overlay.Inherit
	for name, c := range map[string]struct {
		change func(*overlay.Tunnel)
		want   fields
	}{
		"default": {func(*overlay.Tunnel) {}, fields{
			inner4: set(2, 64, true), inner6: set(1, 64, true), may4: set(3, 64, true), arp: set(0, 64, true)}},
		"given": {func(u *overlay.Tunnel) { u.DSCP, u.TTL, u.DF = 46, 9, overlay.DFUnset }, fields{
			inner4: set(46<<2|2, 9, false), inner6: set(46<<2|1, 9, false), may4: set(46<<2|3, 9, false), arp: set(46<<2, 9, false)}},
		"largest": {func(u *overlay.Tunnel) { u.DSCP, u.TTL, u.DF = 63, 255, overlay.DFSet }, fields{
			inner4: set(0xfe, 255, true), inner6: set(0xfd, 255, true), may4: set(0xff, 255, true), arp: set(0xfc, 255, true)}},
		"inherited": {func(u *overlay.Tunnel) { u.DSCP, u.TTL, u.DF = inherit, inherit, overlay.DFInherit }, fields{
			inner4: set(0x2e, 17, true), inner6: set(0x2d, 18, true), may4: set(3, 64, false), arp: set(0, 64, true)}},
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, to way) {
				c.change(&to.tunnel)
				w := to.world(t)
				for words, want := range c.want {
					in := pkttest.Frame(alice, bob, words)
					for range 2 { // a miss and a hit
						r := w.fromPort(t, "p0", in)
						if !w.wantTunnel(t, in, padded(in), r, want, w.sameID(r.out)) {
							t.Fatal(words)
						}
					}
				}
			})
		})
	}
}

// sameID takes over an IPv4 packet's identification, which is random where the
// packet may be fragmented.
func (w *world) sameID(out []byte) func(*pkttest.Outer) {
	return func(o *pkttest.Outer) {
		if o.MayFragment && w.family.tep.Is4() && len(out) > etherLen+6 {
			o.ID = uint16(out[etherLen+4])<<8 | uint16(out[etherLen+5])
		}
	}
}

// Fields that are no part of a flow are those of each packet, not of its first.
func TestFieldsAreNotCached(t *testing.T) {
	eachWay(t, func(t *testing.T, to way) {
		to.tunnel.DSCP, to.tunnel.TTL, to.tunnel.DF = overlay.Inherit, overlay.Inherit, overlay.DFInherit
		w := to.world(t)
		_, events := w.counted(t, func() {
			for i := range 8 {
				df, words := i%2 == 1, fmt.Sprintf("tos %d ttl %d", i<<3|i%4, 60-i)
				if df {
					words += " df"
				}
				in := pkttest.Frame(alice, bob, words+" udp 10.0.0.1:53 > 10.0.0.2:53 40")
				r := w.fromPort(t, "p0", in)
				w.wantTunnel(t, in, in, r, func(o *pkttest.Outer) {
					o.TOS, o.TTL, o.MayFragment = uint8(i<<3|i%4), uint8(60-i), !df
				}, w.sameID(r.out))
			}
		})
		if events["hit"] != 7 {
			t.Errorf("events %v, want 7 hits", events)
		}
	})
}

// ecnTable is RFC 6040 figure 4: outer mark, inner mark, and what leaves the tunnel.
var ecnTable = [4][4]int{ // [inner][outer]; Not-ECT 0, ECT(1) 1, ECT(0) 2, CE 3; -1: dropped
	0: {0, 0, 0, -1},
	1: {1, 1, 1, 3},
	2: {2, 1, 2, 3},
	3: {3, 3, 3, 3},
}

func TestECNOutOfTheTunnel(t *testing.T) {
	eachWay(t, func(t *testing.T, to way) {
		w := to.world(t)
		for _, words := range []string{"udp 10.0.0.1:53 > 10.0.0.2:53 40", "tcp [2001:db8:1::1]:1 > [2001:db8:1::2]:2 40"} {
			for inner, row := range ecnTable {
				for outer, want := range row {
					frame := func(ecn int) []byte {
						return pkttest.Frame(bob, alice, fmt.Sprintf("tos %d %s", 0x28|ecn, words))
					}
					o := w.outer(to.family.remotes[0])
					o.TOS = uint8(0x40 | outer)
					in := o.Wrap(frame(inner))
					if want < 0 {
						w.wantDrop(t, dropCase{reason: "ecn-marked", from: "u0", packet: packet{bytes: in}})
						continue
					}
					r := w.fromUnderlay(t, in)
					r.want(t, in, forwarded)
					check.Equal(t, fmt.Sprintf("inner %d, outer %d", inner, outer), frame(want), r.out)
				}
			}
		}
		// What cannot carry a mark, and is no IP packet, passes.
		o := w.outer(to.family.remotes[0])
		o.TOS = 3
		in := padded(pkttest.Frame(bob, alice, arp))
		check.Equal(t, "ARP", in, w.fromUnderlay(t, o.Wrap(in)).out)
	})
}
