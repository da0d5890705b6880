package datapath

import (
	"fmt"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// geneve is blue's tunnel with these options.
func geneve(options []byte) overlay.Tunnel {
	return overlay.Tunnel{Encapsulation: overlay.Geneve, UDPPort: 6081, Options: options}
}

// Options of every length are sent as they are configured, and taken.
func TestGeneveOptionsAreCarried(t *testing.T) {
	for _, f := range families {
		for _, options := range [][]byte{
			nil, plainOptions, criticalOptions, longestOptions,
			pkttest.Option(0, 0, 0), pkttest.Option(0xffff, 0xff, 124), slices.Repeat(pkttest.Option(1, 1, 0), 63),
		} {
			t.Run(fmt.Sprintf("%s, %d bytes", f.name, len(options)), func(t *testing.T) {
				w := newWorld(t, f, static(f), tunnelled(geneve(options)))
				for _, words := range []string{tcp4, tcp6, arp} {
					in := pkttest.Frame(alice, bob, words)
					w.wantTunnel(t, in, padded(in), w.fromPort(t, "p0", in))
					back := padded(exchanged(in))
					tunnel := w.fromRemote(back)
					r := w.fromUnderlay(t, tunnel)
					r.want(t, tunnel, forwarded)
					check.Equal(t, words, back, r.out)
				}
			})
		}
	}
}

// optionCases are Geneve options that a remote may not send, and some that it may.
var optionCases = []struct {
	name    string
	options []byte
	reason  string // "": forwarded
}{
	{"known critical", criticalOptions, ""},
	{"known critical, the second", append(pkttest.Option(9, 9, 0), criticalOptions...), ""},
	{"known with another length", append(slices.Clone(criticalOptions[:4]), pkttest.Option(0x0104, 0x83, 8)...), ""},
	{"unknown", pkttest.Option(0x0105, 0x01, 4), ""},
	{"unknown critical", pkttest.Option(0x0105, 0x81, 4), "unknown-option"},
	{"unknown critical without data", pkttest.Option(0x0105, 0x81, 0), "unknown-option"},
	{"critical type of another class", pkttest.Option(0x0105, 0x83, 4), "unknown-option"},
	{"known type, but critical here", pkttest.Option(0x0103, 0x82, 0), "unknown-option"},
	{"unknown critical, the last of 63", append(slices.Repeat(pkttest.Option(1, 1, 0), 62), pkttest.Option(1, 0x81, 0)...), "unknown-option"},
	{"63 options", slices.Repeat(pkttest.Option(1, 1, 0), 63), ""},
	{"longer than all", append(pkttest.Option(1, 1, 4), 0, 1, 1, 1), "outer-malformed"},
	{"the first longer than all", []byte{0, 1, 1, 31}, "outer-malformed"},
	{"longer than all and critical", []byte{0, 1, 0x81, 31}, "outer-malformed"},
	{"reserved bits", []byte{0, 1, 1, 0xe1, 0, 0, 0, 0}, ""},
}

func TestGeneveOptionWalk(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			w := newWorld(t, f, static(f), tunnelled(geneve(criticalOptions)))
			for _, c := range optionCases {
				t.Run(c.name, func(t *testing.T) {
					o := w.outer(f.remotes[0])
					o.GeneveOptions = c.options
					inner := pkttest.Frame(bob, alice, tcp4)
					in := o.Wrap(inner)
					for range 2 {
						if c.reason != "" {
							w.wantDrop(t, dropCase{reason: c.reason, from: "u0", packet: packet{bytes: in}})
							continue
						}
						r := w.fromUnderlay(t, in)
						r.want(t, in, forwarded)
						check.Equal(t, "frame", inner, r.out)
					}
				})
			}
		})
	}
}

// The outer datagram cut by its sender: all lengths fit, but the inside is short.
func TestShortDatagramsAreNotForwarded(t *testing.T) {
	eachWay(t, func(t *testing.T, to way) {
		w := to.world(t)
		o := w.outer(to.family.remotes[0])
		whole := o.Wrap(pkttest.Frame(bob, alice, udp4))
		for n := range len(whole) - o.HeaderAt() {
			in := shortened(o, whole, n)
			if len(in) < etherLen+ipv6Len {
				continue // TEST_RUN takes no less
			}
			var r result
			drops, _ := w.counted(t, func() { r = w.fromUnderlay(t, in) })
			// Less than a GRE header with its key is not NVGRE, but the host's.
			if host := o.NVGRE() && n < 8; host && r.verdict == next && sum(drops) == 0 {
				continue
			}
			if r.verdict != dropped || sum(drops) != 1 {
				pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: in}}, "%d bytes in the tunnel: %v, drops %v", n, r.verdict, drops)
				return
			}
		}
	})
}

// shortened is a good tunnel packet of which n bytes follow UDP, or IP in NVGRE.
func shortened(o pkttest.Outer, whole []byte, n int) []byte {
	body := pkttest.Bytes(whole[o.HeaderAt() : o.HeaderAt()+n])
	src, dst := o.Src.String(), o.Dst.String()
	ip := map[bool]pkttest.Layer{true: pkttest.IPv4(src, dst), false: pkttest.IPv6(src, dst)}[o.Src.Is4()]
	if o.NVGRE() {
		return pkttest.Packet(pkttest.Ether(o.SrcMAC, o.DstMAC), pkttest.WithProto(ip, pkttest.ProtoGRE), body)
	}
	return pkttest.Packet(pkttest.Ether(o.SrcMAC, o.DstMAC), ip, pkttest.UDP(50000, o.DstPort), body)
}

// What a tunnel header of each kind may not have.
func TestTunnelFlags(t *testing.T) {
	type change = func(*pkttest.Outer)
	flags := func(f uint32) change { return func(o *pkttest.Outer) { o.Flags = f } }
	cases := map[overlay.Encapsulation]map[string]change{
		overlay.VXLAN: {"no I flag": flags(0x10000000), "all but the I flag": flags(0xf7ffffff)},
		overlay.Geneve: {
			"OAM": flags(pkttest.GeneveOAM), "OAM and critical": flags(pkttest.GeneveOAM | pkttest.GeneveCritical),
			"version 1": flags(0x4000), "version 3": flags(0xc000),
			"IPv4 inside":      func(o *pkttest.Outer) { o.Protocol = pkttest.EtherTypeIPv4 },
			"protocol of ones": func(o *pkttest.Outer) { o.Protocol = 0xffff },
		},
		overlay.NVGRE: {
			"checksum": flags(0xa000), "sequence number": flags(0x3000), "both": flags(0xb000),
			"routing": flags(0x6000), "recursion": flags(0x2100), "acknowledgement": flags(0x2080),
		},
	}
	eachWay(t, func(t *testing.T, to way) {
		w := to.world(t)
		for name, change := range cases[to.tunnel.Encapsulation] {
			t.Run(name, func(t *testing.T) {
				o := w.outer(to.family.remotes[0])
				change(&o)
				w.wantDrop(t, dropCase{reason: "tunnel-flags", from: "u0", packet: packet{bytes: o.Wrap(pkttest.Frame(bob, alice, udp4))}})
			})
		}
	})
}

// GRE that is no NVGRE is the host's, and so is all GRE of an edge without NVGRE.
func TestOtherGREIsTheHosts(t *testing.T) {
	t.Parallel()
	for _, f := range families {
		for _, on := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, NVGRE %t", f.name, on), func(t *testing.T) {
				w := newWorld(t, f, static(f), func(c *Config, _ *fib.Tables) { c.NVGRE = on })
				w.tables.Segments[0].Tunnel = overlay.Tunnel{Encapsulation: overlay.NVGRE}
				w.apply(t)
				for name, change := range map[string]func(*pkttest.Outer){
					"no key":                     func(o *pkttest.Outer) { o.Flags = 0x8000 },
					"another protocol":           func(o *pkttest.Outer) { o.Protocol = pkttest.EtherTypeIPv4 },
					"version 1":                  func(o *pkttest.Outer) { o.Flags = 0x2001 },
					"version 1 without a key":    func(o *pkttest.Outer) { o.Flags = 0x0001 },
					"another address":            func(o *pkttest.Outer) { o.Dst = f.unknown },
					"NVGRE":                      func(*pkttest.Outer) {},
					"NVGRE of an unknown remote": func(o *pkttest.Outer) { o.Src = f.unknown },
				} {
					o := w.outer(f.remotes[0])
					change(&o)
					in := o.Wrap(pkttest.Frame(bob, alice, udp4))
					r := w.fromUnderlay(t, in)
					if host := r.verdict == next; host == (on && name[:2] == "NV") {
						pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: in}}, "%s: %v", name, r.verdict)
					}
					if r.verdict == next {
						check.Equal(t, name, in, r.out)
					}
				}
			})
		}
	}
}
