package gen

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/tier"
)

// The answers to a device that looks for its neighbours.
func TestAnswer(t *testing.T) {
	own, asker := mac(dstMAC), mac(srcMAC)
	s, quiet := testSink(t, SinkOptions{Answer: true}), testSink(t, SinkOptions{})
	t.Parallel()
	// A test run comes from the loopback interface.
	if err := s.receiver.addresses.Put(uint32(1), [6]byte(own)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ ask, want []byte }{
		"ARP": {pkttest.Frame(srcMAC, "ff:ff:ff:ff:ff:ff", "arp 10.0.0.1 ? 10.0.0.2"), pkttest.Frame(dstMAC, srcMAC, "arp 10.0.0.2 ! 10.0.0.1")},
		"ND": {
			pkttest.Frame(srcMAC, "33:33:ff:00:00:02", "ns 2001:db8::1 ? 2001:db8::2"),
			pkttest.Frame(dstMAC, srcMAC, "na 2001:db8::2 ! 2001:db8::1"),
		},
		"gratuitous ARP": {pkttest.Frame(srcMAC, "ff:ff:ff:ff:ff:ff", "arp 10.0.0.1 ? 10.0.0.1"), nil},
		"ARP probe":      {pkttest.Frame(srcMAC, "ff:ff:ff:ff:ff:ff", "arp 0.0.0.0 ? 10.0.0.1"), nil},
		"ARP reply":      {pkttest.Frame(srcMAC, dstMAC, "arp 10.0.0.1 ! 10.0.0.2"), nil},
		"duplicate address detection": {
			pkttest.Packet(append([]pkttest.Layer{pkttest.Ether(srcMAC, "33:33:ff:00:00:02")}, pkttest.Solicit(srcMAC, netip.IPv6Unspecified(), netip.MustParseAddr("ff02::1:ff00:2"), netip.MustParseAddr("2001:db8::2"))...)...), nil,
		},
		"advertisement": {pkttest.Frame(srcMAC, dstMAC, "na 2001:db8::2 ! 2001:db8::1"), nil},
		"ping":          {pkttest.Frame(srcMAC, dstMAC, "icmp 10.0.0.1 > 10.0.0.2 56"), nil},
	} {
		if err := s.Reset(1); err != nil {
			t.Fatal(err)
		}
		action, out := run(t, s.receiver.program, c.ask)
		if c.want == nil {
			if action != actionPass || string(out) != string(c.ask) || s.report(t).Answered != 0 {
				t.Errorf("%s: action %d", name, action)
			}
			continue
		}
		d := pkttest.Dissect(out)
		if action != actionTX || len(d.Faults) > 0 || string(out[:6]) != string(asker) || s.report(t).Answered != 1 {
			t.Errorf("%s: action %d, faults %v", name, action, d.Faults)
		}
		if string(out) != string(c.want) {
			pkttest.Errorf(t, []pkttest.Named{{Name: "answer", Bytes: out}, {Name: "wanted", Bytes: c.want}}, "%s: the answer differs", name)
		}
		if action := quiet.take(t, c.ask); action != actionPass {
			t.Errorf("%s: action %d of a sink that does not answer", name, action)
		}
	}
}

func testReflector(t *testing.T, o ReflectorOptions) *Reflector {
	t.Helper()
	tier.Root(t)
	r, err := loadReflector(o)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// A reflected packet is the one that the other side would send: same bytes, but
// addresses and inner ports have changed places.
func TestReflect(t *testing.T) {
	r, all := testReflector(t, ReflectorOptions{}), testReflector(t, ReflectorOptions{Plain: true})
	t.Parallel()
	for name, tunnel := range tunnels() {
		for family, headers := range map[int]int{4: 20, 6: 40} {
			t.Run(fmt.Sprintf("%s IPv%d", name, family), func(t *testing.T) {
				sender := testSender(t, Stream{Frame: 200, Family: family, ID: 5}, tunnel)
				if err := r.Reset(); err != nil {
					t.Fatal(err)
				}
				sender.make(t)
				frame := sender.make(t)
				action, out := run(t, r.receiver.program, frame)
				if tunnel == nil {
					if report, err := r.Read(); action != actionPass || string(out) != string(frame) || err != nil || report.Foreign["ip"] != 1 {
						t.Errorf("a frame without a tunnel: action %d, %+v, %v", action, report, err)
					}
					return
				}
				if action, again := run(t, all.receiver.program, frame); action != actionTX || string(again) != string(out) {
					t.Errorf("of one that takes all: action %d, %x; want %x", action, again, out)
				}
				want := append([]byte(nil), frame...)
				swap(want, 0, 6)
				outer := map[bool]int{true: 20, false: 40}[tunnel.Remote.Is4()]
				swapAddresses(want, 14, outer)
				inner := tunnel.headerLen()
				swap(want, inner, 6)
				swapAddresses(want, inner+14, headers)
				swap(want, inner+14+headers, 2)
				if action != actionTX || string(out) != string(want) {
					pkttest.Errorf(t, []pkttest.Named{{Name: "came", Bytes: frame}, {Name: "went", Bytes: out}, {Name: "wanted", Bytes: want}}, "action %d", action)
				}
				if d := pkttest.Dissect(out); len(d.Faults) > 0 {
					t.Errorf("faults: %v", d.Faults)
				}
				if report, err := r.Read(); err != nil || report.Frames != 1 || report.Bytes != uint64(len(frame)) || report.Around[string(tunnel.Encapsulation)] != 1 {
					t.Errorf("%+v, %v", report, err)
				}
				if err := r.Reset(); err != nil {
					t.Error(err)
				}
				if report, err := r.Read(); err != nil || report.Frames != 0 {
					t.Errorf("after a reset: %+v, %v", report, err)
				}
			})
		}
	}
}

// A frame without a tunnel is turned round where it is asked for, behind a tag, too.
func TestReflectPlain(t *testing.T) {
	r, redirects := testReflector(t, ReflectorOptions{Plain: true}), testReflector(t, ReflectorOptions{Plain: true, Redirect: true})
	t.Parallel()
	for family, headers := range map[int]int{4: 20, 6: 40} {
		for _, tag := range []int{0, 4} {
			frame := testSender(t, Stream{Frame: 200, Family: family}, nil).make(t)
			if tag > 0 {
				frame = slices.Insert(frame, 12, 0x81, 0, 0, 7)
			}
			want := slices.Clone(frame)
			swap(want, 0, 6)
			swapAddresses(want, 14+tag, headers)
			swap(want, 14+tag+headers, 2)
			action, out := run(t, r.receiver.program, frame)
			if action, again := run(t, redirects.receiver.program, frame); action != actionRedirect || string(again) != string(out) {
				t.Errorf("by redirect: action %d, %x; want %x", action, again, out)
			}
			if action != actionTX || string(out) != string(want) {
				pkttest.Errorf(t, []pkttest.Named{{Name: "came", Bytes: frame}, {Name: "went", Bytes: out}, {Name: "wanted", Bytes: want}}, "IPv%d, tag of %d bytes: action %d", family, tag, action)
			}
			if d := pkttest.Dissect(out); len(d.Faults) > 0 {
				t.Errorf("faults: %v", d.Faults)
			}
		}
	}
	other := pkttest.Frame(srcMAC, dstMAC, "icmp 10.0.0.1 > 10.0.0.2 56")
	if action, out := run(t, r.receiver.program, other); action != actionPass || string(out) != string(other) {
		t.Errorf("a ping: action %d", action)
	}
}

// swap exchanges n bytes with the n that follow.
func swap(b []byte, at, n int) {
	first := append([]byte(nil), b[at:at+n]...)
	copy(b[at:], b[at+n:at+2*n])
	copy(b[at+n:], first)
}

// swapAddresses exchanges those of an IP header of that length.
func swapAddresses(b []byte, at, header int) {
	if header == 20 {
		swap(b, at+12, 4)
	} else {
		swap(b, at+8, 16)
	}
}
