package nat

import (
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// Use is an address, or a network, that is not free to be an egress address. By says whose it is, as in "a next hop".
type Use struct {
	netip.Prefix
	By string
}

// UseOf is the use of one address.
func UseOf(addr netip.Addr, by string) Use { return Use{netip.PrefixFrom(addr, addr.BitLen()), by} }

// Reserved are the addresses to which no host of another network can reply.
func Reserved() []Use {
	return []Use{
		{netip.MustParsePrefix("0.0.0.0/8"), "reserved (RFC 1122 section 3.2.1.3)"},
		{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address"},
		{netip.MustParsePrefix("169.254.0.0/16"), "valid on one link only"},
		{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address"},
		{netip.MustParsePrefix("255.255.255.255/32"), "the broadcast address"},
		{netip.MustParsePrefix("::/8"), "reserved (RFC 4291 section 2.4)"},
		{netip.MustParsePrefix("fe80::/10"), "valid on one link only"},
		{netip.MustParsePrefix("ff00::/8"), "a multicast address"},
	}
}

// Unassignable are the addresses of a network that belong to no host in it. Links between two routers have none (RFC 3021, RFC 6164).
func Unassignable(network netip.Prefix) []Use {
	first, bits := network.Masked().Addr(), network.Addr().BitLen()
	switch {
	case bits-network.Bits() < 2:
		return nil
	case first.Is4():
		return []Use{
			UseOf(first, "the network address of "+network.Masked().String()), UseOf(last(network), "the broadcast address of "+network.Masked().String()),
		}
	}
	return []Use{UseOf(first, "the subnet-router anycast address of "+network.Masked().String()+" (RFC 4291 section 2.6.1)")}
}

// last is the highest address of a network.
func last(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < 8*len(b); bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	addr, _ := netip.AddrFromSlice(b)
	return addr
}

// Used is the index of the first use that has an address of r, -1 when all are free.
func Used(r overlay.AddrRange, uses []Use) int {
	return slices.IndexFunc(uses, func(u Use) bool {
		return u.Contains(r.First) || r.First.Is4() == u.Addr().Is4() && r.First.Compare(u.Masked().Addr()) <= 0 && u.Masked().Addr().Compare(r.Last) <= 0
	})
}

// WhyUsed says whose an address is, "" when it is free.
func WhyUsed(addr netip.Addr, uses []Use) string {
	i := Used(overlay.AddrRange{First: addr, Last: addr}, uses)
	switch {
	case i < 0:
		return ""
	case uses[i].IsSingleIP():
		return uses[i].By
	}
	return "in " + uses[i].Masked().String() + ", " + uses[i].By
}
