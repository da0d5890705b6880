package nat

import (
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
)

func TestUsed(t *testing.T) {
	uses := append(Reserved(), UseOf(netip.MustParseAddr("198.51.100.1"), "a next hop"), UseOf(netip.MustParseAddr("2001:db8:5::1"), "a next hop"))
	for _, network := range []string{"198.51.100.2/24", "203.0.113.0/31", "2001:db8:5::2/64", "2001:db8:6::/127", "192.0.2.9/32"} {
		uses = append(uses, Unassignable(netip.MustParsePrefix(network))...)
	}
	uses = append(uses, Use{netip.MustParsePrefix("10.244.0.9/16"), "a network of pods"})
	for addr, want := range map[string]string{
		"198.51.100.1": "a next hop", "198.51.100.2": "", "198.51.100.0": "the network address of 198.51.100.0/24",
		"198.51.100.255": "the broadcast address of 198.51.100.0/24", "198.51.101.0": "", "203.0.113.0": "", "203.0.113.1": "", "192.0.2.9": "",
		"2001:db8:5::1": "a next hop", "2001:db8:5::": "the subnet-router anycast address of 2001:db8:5::/64 (RFC 4291 section 2.6.1)",
		"2001:db8:5::ffff:ffff:ffff:ffff": "", "2001:db8:6::": "", "10.244.7.1": "in 10.244.0.0/16, a network of pods", "10.245.0.0": "",
		"0.0.0.5": "in 0.0.0.0/8, reserved (RFC 1122 section 3.2.1.3)", "127.0.0.1": "in 127.0.0.0/8, a loopback address", "239.1.2.3": "in 224.0.0.0/4, a multicast address",
		"255.255.255.255": "the broadcast address", "169.254.7.7": "in 169.254.0.0/16, valid on one link only", "100.64.0.1": "",
		"::1": "in ::/8, reserved (RFC 4291 section 2.4)", "::ffff:192.0.2.1": "in ::/8, reserved (RFC 4291 section 2.4)", "fe80::1": "in fe80::/10, valid on one link only",
		"ff02::1": "in ff00::/8, a multicast address", "fd00::1": "",
	} {
		if got := WhyUsed(netip.MustParseAddr(addr), uses); got != want {
			t.Errorf("%s is %q, want %q", addr, got, want)
		}
	}
	for text, used := range map[string]bool{
		"198.51.100.2-198.51.100.254": false, "198.51.99.250-198.51.100.0": true, "10.243.255.250-10.244.0.1": true, "10.245.0.0-10.245.0.9": false,
		"126.255.255.250-126.255.255.255": false, "126.255.255.250-127.0.0.0": true, "2001:db8:4::ffff-2001:db8:5::3": true, "2001:db8:5::2-2001:db8:5::9": false,
	} {
		r := rangeOf(t, text)
		if got := Used(r, uses) >= 0; got != used {
			t.Errorf("%s is used: %v, want %v", text, got, used)
		}
		found := false // one by one
		for a := r.First; a.Compare(r.Last) <= 0 && r.First.Is4(); a = a.Next() {
			found = found || WhyUsed(a, uses) != ""
		}
		if r.First.Is4() && found != used {
			t.Errorf("an address of %s is used: %v, want %v", text, found, used)
		}
	}
}

func rangeOf(t *testing.T, text string) overlay.AddrRange {
	t.Helper()
	for i := range text {
		if text[i] == '-' {
			return overlay.AddrRange{First: netip.MustParseAddr(text[:i]), Last: netip.MustParseAddr(text[i+1:])}
		}
	}
	t.Fatalf("%s is no range", text)
	return overlay.AddrRange{}
}
