package datapath

import (
	"fmt"
	"testing"

	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// An outer UDP checksum that is not zero must be right (RFC 8926 section 3.3): a damaged VNI would lead into another segment.
func TestOuterChecksum(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, to way) {
		if to.tunnel.UDPPort == 0 { // NVGRE
			return
		}
		w := newWorld(t, to.family, tunnelled(to.tunnel), static(to.family))
		o := w.outer(to.family.remotes[0])
		for _, size := range []int{1, 2, 19, 400, 470, 1300} {
			x := padded(pkttest.Frame(bob, alice, fmt.Sprintf("udp 10.0.0.2:1 > 10.0.0.1:2 %d", size)))
			for _, c := range []struct {
				name   string
				sum    bool
				change func(b []byte)
				reason string
			}{
				{"zero", false, func([]byte) {}, ""},
				{"right", true, func([]byte) {}, ""},
				{"wrong", true, func(b []byte) { b[o.TunnelAt()+7] ^= 1 }, "outer-checksum"},
				{"of another VNI", true, func(b []byte) { b[o.HeaderAt()+6] ^= 8 }, "outer-checksum"},
				{"of another last byte", true, func(b []byte) { b[len(b)-1] ^= 0x80 }, "outer-checksum"},
				{"of another source", true, func(b []byte) { b[o.TunnelAt()+1] ^= 1 }, "outer-checksum"},
			} {
				o.Checksum = c.sum
				in := o.Wrap(x)
				c.change(in)
				var r result
				drops, _ := w.counted(t, func() { r = w.fromUnderlay(t, in) })
				if c.reason == "" {
					r.want(t, in, forwarded)
					check.Equal(t, c.name, x, r.out)
				} else if drops[c.reason] != 1 || sum(drops) != 1 {
					t.Errorf("%s, %d bytes: drops %v", c.name, size, drops)
				}
			}
		}
	})
}

// The transit program forwards what has a right checksum, and leaves what has another one to tc: of a local sender the sum is not there yet.
func TestTransitVerifiesOuterChecksums(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, to way) {
		if to.tunnel.UDPPort == 0 { // NVGRE
			return
		}
		onOneCPU(t)
		w := transitWorld(t, to)
		for _, c := range passing() {
			if c.from == "s0" {
				continue
			}
			o := w.outerIn(c.segment, w.family.remotes[map[string]int{"first": 0, "second": 1}[c.from]])
			o.Checksum = true
			in := o.Wrap(padded(pkttest.Frame(c.src, c.dst, c.words)))
			want := w.fromUnderlay(t, in)
			want.want(t, in, forwarded)
			for range 2 {
				got := w.transit(t, "u0", in)
				if got.verdict != xdpRedirect {
					t.Fatalf("%s: verdict %d of the transit program", c.name, got.verdict)
				}
				check.Equal(t, c.name, want.out, got.out)
			}
			in[o.TunnelAt()+7] ^= 1
			if got := w.transit(t, "u0", in); got.verdict != xdpPass {
				t.Errorf("%s, damaged: verdict %d of the transit program", c.name, got.verdict)
			}
		}
	})
}
