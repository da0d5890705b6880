package check

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

const (
	alice = "02:00:00:00:00:0a"
	bob   = "02:00:00:00:00:0b"
)

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper()           {}
func (r *recorder) Name() string      { return "recorder" }
func (r *recorder) Error(args ...any) { r.said, _ = args[0].(string) }

func TestPacket(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	inner := pkttest.Frame(alice, bob, "tcp 10.0.0.1:1000 > 10.0.0.2:80 100")
	out := pkttest.Outer{SrcMAC: alice, DstMAC: bob, Src: a, Dst: b, VNI: 100}.Wrap(inner)
	Packet(t, inner, out, Ether(alice, bob), IP(a, b, TTL(64), DontFragment), UDP(DstPort(4789), NoChecksum, EntropyPort), VXLAN(100), Frame(inner))

	for want, checker := range map[string]Checker{
		"source > destination": Ether(bob, alice),
		"where ipv4 should be": IP(a, b),
	} {
		r := &recorder{TB: t}
		if Packet(r, inner, out, checker) || !strings.Contains(r.said, want) || !strings.Contains(r.said, "pcap: /") {
			t.Errorf("it says %q, want %q and a pcap", r.said, want)
		}
	}
	out[len(out)-1] ^= 1
	if r := (&recorder{TB: t}); Packet(r, inner, out) || !strings.Contains(r.said, "checksum: tcp") {
		t.Errorf("it says %q of a wrong checksum", r.said)
	}
}

// Each checker says what is wrong.
func TestCheckers(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	a, b, six := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("2001:db8::1")
	quoted := pkttest.Frame(alice, bob, "udp 10.0.0.1:1 > 10.0.0.2:2 700")[14:]
	tooBig := pkttest.Packet(pkttest.Ether(bob, alice), pkttest.IPv4("10.0.0.2", "10.0.0.1"), pkttest.ICMP(3, 4, 1400), pkttest.Bytes(quoted[:548]))
	for _, c := range []struct {
		words string
		frame []byte
		good  Checker
		bad   map[string]Checker
	}{
		{"too big", tooBig, ICMP(3, 4, Rest(1400), Quotes(quoted)), map[string]Checker{
			"type/code is 3/4": ICMP(3, 1), "MTU or unused is 1400": ICMP(3, 4, Rest(1401)), "quoted is": ICMP(3, 4, Quotes(quoted[20:])),
			"bytes of 547 are quoted": ICMP(3, 4, Quotes(quoted[:547])), "where icmpv6 should be": ICMPv6(3, 4),
		}},
		{"SYN", pkttest.Frame(alice, bob, "tcp 10.0.0.1:1 > 10.0.0.2:2 syn nop mss 1400"), TCP(MSS(1400)), map[string]Checker{"MSS is 1400, want 0": TCP(MSS(0))}},
		{"ARP", pkttest.Frame(alice, bob, "arp 10.0.0.1 ! 10.0.0.2"), ARP(2, alice, a, bob, b), map[string]Checker{
			"packet is": ARP(1, alice, a, bob, b), "0a000001": ARP(2, alice, b, bob, a),
		}},
		{"solicitation", pkttest.Frame(alice, bob, "ns 2001:db8::2 ? 2001:db8::1"), Solicitation(six, alice), map[string]Checker{"flags, target and option": Solicitation(six, bob)}},
		{"advertisement", pkttest.Frame(alice, bob, "na 2001:db8::1 ! 2001:db8::2"), Advertisement(Solicited|Override, six, alice), map[string]Checker{
			"60000000": Advertisement(Override, six, alice),
		}},
		{"tag", pkttest.Frame(alice, bob, "vlan 7 tos 3 udp 10.0.0.1:1 > 10.0.0.2:2"), Tag(7), map[string]Checker{"TCI is 7, want 8": Tag(8)}},
	} {
		skip := func(left []pkttest.Header) ([]pkttest.Header, error) {
			for len(left) > 1 && (left[0].Kind == pkttest.KindEther || left[0].Kind == pkttest.KindIPv4 || left[0].Kind == pkttest.KindIPv6) {
				left = left[1:]
			}
			return left, nil
		}
		Packet(t, nil, c.frame, skip, c.good)
		for want, bad := range c.bad {
			if r := (&recorder{TB: t}); Packet(r, nil, c.frame, skip, bad) || !strings.Contains(r.said, want) {
				t.Errorf("%s: it says %q, want %q", c.words, r.said, want)
			}
		}
	}
}

// Tunnel headers are checked to the bit.
func TestTunnelCheckers(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	inner := pkttest.Frame(alice, bob, "udp 10.0.0.1:1 > 10.0.0.2:2 30")
	option := pkttest.Option(1, 0x81, 4)
	o := pkttest.Outer{
		SrcMAC: alice, DstMAC: bob, Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), VNI: 100,
		Encapsulation: overlay.Geneve, GeneveOptions: option, Flags: pkttest.GeneveCritical, TOS: 3,
	}
	head := []Checker{Ether(alice, bob), IP(o.Src, o.Dst, TOS(3))}
	Packet(t, inner, o.Wrap(inner), append(head, UDP(DstPort(6081)), Geneve(100, option), Frame(inner))...)
	o.Flags = 0 // but there is a critical option
	if r := (&recorder{TB: t}); Packet(r, inner, o.Wrap(inner), append(head, UDP(), Geneve(100, option))...) {
		t.Error("nothing is said of a missing C flag")
	}
	o.Encapsulation, o.GeneveOptions, o.Reserved = overlay.NVGRE, nil, 7
	Packet(t, inner, o.Wrap(inner), append(head, NVGRE(100, FlowID(7)), Frame(inner))...)
	if r := (&recorder{TB: t}); Packet(r, inner, o.Wrap(inner), append(head, NVGRE(100, FlowID(8)))...) || !strings.Contains(r.said, "FlowID is 7") {
		t.Errorf("it says %q of another FlowID", r.said)
	}
}
