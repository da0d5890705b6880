package pkttest

import (
	"net/netip"
	"testing"
)

// What is readdressed is what the other words build, in every checksum.
func TestReaddressed(t *testing.T) {
	for _, c := range []struct{ was, is string }{
		{"tcp 10.0.0.1:1000 > 203.0.113.5:80 syn mss 1460 33", "tcp 192.0.2.7:40001 > 203.0.113.5:80 syn mss 1460 33"},
		{"udp 10.0.0.1:1000 > 203.0.113.5:53 7", "udp 192.0.2.7:1000 > 203.0.113.5:53 7"},
		{"udp [2001:db8::1]:1000 > [2001:db8:7::5]:53 0", "udp [2001:db8:9::1]:9 > [2001:db8:7::6]:54 0"},
		{"tcp [2001:db8::1]:1000 > [2001:db8:7::5]:53 fin 9", "tcp [2001:db8:9::1]:9 > [2001:db8:7::6]:54 fin 9"},
		{"icmp 10.0.0.1 > 203.0.113.5 id 7 56", "icmp 192.0.2.7 > 203.0.113.5 id 60000 56"},
		{"icmp 2001:db8::1 > 2001:db8:7::5 129/0 id 7 55", "icmp 2001:db8:9::1 > 2001:db8:7::6 129/0 id 9 55"},
		{"icmp 10.0.0.1 > 203.0.113.5 13/0 12", "icmp 192.0.2.7 > 203.0.113.5 13/0 12"},
		{"ip 2001:db8::1 > 2001:db8:7::5 132 20", "ip 2001:db8:9::1 > 2001:db8:7::6 132 20"},
		{"fragment 10.0.0.1 > 203.0.113.5 1480 64", "fragment 192.0.2.7 > 203.0.113.6 1480 64"},
	} {
		was, is := Frame(alice, bob, c.was), Frame(alice, bob, c.is)
		if got := Readdressed(was, TalkOf(is)); string(got) != string(is) {
			Errorf(t, []Named{{"want", is}, {"got", got}}, "%s", c.is)
		}
		if ProtoOf(is) != ipHeaderOf(is[etherLen:]).proto || TalkOf(is).Reversed().Reversed() != TalkOf(is) {
			t.Errorf("%s: its protocol or talk", c.is)
		}
	}
}

// The same in pieces, behind extension headers and in ICMP errors.
func TestReaddressedParts(t *testing.T) {
	was4, is4 := Frame(alice, bob, "udp 10.0.0.1:1000 > 203.0.113.5:53 100"), Frame(alice, bob, "udp 192.0.2.7:9 > 203.0.113.5:53 100")
	was6, is6 := Frame(alice, bob, "tcp [2001:db8::1]:5 > [2001:db8::2]:6 syn 100"), Frame(alice, bob, "tcp [2001:db8:9::1]:7 > [2001:db8::2]:6 syn 100")
	for i, want := range Fragments(is4, 7, 48) {
		if got := Readdressed(Fragments(was4, 7, 48)[i], TalkOf(is4)); string(got) != string(want) {
			Errorf(t, []Named{{"want", want}, {"got", got}}, "fragment %d", i)
		}
	}
	for i, want := range Fragments(is6, 7, 48) {
		if got := Readdressed(Fragments(was6, 7, 48)[i], TalkOf(is6)); string(got) != string(want) {
			Errorf(t, []Named{{"want", want}, {"got", got}}, "IPv6 fragment %d", i)
		}
	}
	for _, kinds := range [][]uint8{{ProtoHopByHop}, {ProtoDestination, ProtoRouting, ProtoDestination}} {
		want := WithExtensions(is6, kinds...)
		if got := Readdressed(WithExtensions(was6, kinds...), TalkOf(is6)); string(got) != string(want) {
			Errorf(t, []Named{{"want", want}, {"got", got}}, "behind %v", kinds)
		}
	}
	for _, most := range []int{28, 29, 30, 60, 1000} {
		src, dst := netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("192.0.2.7")
		was := ErrorAbout(alice, bob, src, dst, 3, 1, is4, most)
		want := ErrorAbout(alice, bob, src, netip.MustParseAddr("10.0.0.1"), 3, 1, was4, most)
		if got := Requoted(was, src, netip.MustParseAddr("10.0.0.1"), TalkOf(was4)); string(got) != string(want) {
			Errorf(t, []Named{{"want", want}, {"got", got}}, "an error that quotes %d bytes", most)
		}
		src6, dst6 := netip.MustParseAddr("2001:db8:7::5"), netip.MustParseAddr("2001:db8:9::1")
		was = ErrorAbout(alice, bob, src6, dst6, 1, 4, is6, most+20)
		want = ErrorAbout(alice, bob, src6, netip.MustParseAddr("2001:db8::1"), 1, 4, was6, most+20)
		if got := Requoted(was, src6, netip.MustParseAddr("2001:db8::1"), TalkOf(was6)); string(got) != string(want) {
			Errorf(t, []Named{{"want", want}, {"got", got}}, "an IPv6 error that quotes %d bytes", most+20)
		}
		if talk, ok := QuotedTalkOf(was); !ok || talk != TalkOf(is6) {
			t.Errorf("the quoted talk is %v, %t", talk, ok)
		}
	}
}

// A wrong checksum stays wrong, and none stays none.
func TestReaddressedWrongChecksums(t *testing.T) {
	frame := Frame(alice, bob, "udp 10.0.0.1:1000 > 203.0.113.5:53 7")
	to := Talk{netip.MustParseAddrPort("192.0.2.7:9"), netip.MustParseAddrPort("203.0.113.5:53")}
	none, wrong := append([]byte(nil), frame...), append([]byte(nil), frame...)
	none[etherLen+26], none[etherLen+27] = 0, 0
	wrong[etherLen+26] ^= 1
	if got := Readdressed(none, to); got[etherLen+26]|got[etherLen+27] != 0 {
		t.Error("a checksum has appeared")
	}
	if d := Dissect(Readdressed(wrong, to)); !d.Has(Checksum) {
		t.Error("a wrong checksum has become right")
	}
}
