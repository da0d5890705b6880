package config

import (
	"fmt"
	"net/netip"

	"github.com/invopop/jsonschema"

	"github.com/selvage/selvage/internal/nat"
)

const prefixPattern = `^[0-9A-Fa-f.:]+/[0-9]{1,3}$`

func addressSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", AnyOf: []*jsonschema.Schema{{Format: "ipv4"}, {Format: "ipv6"}}}
}

const unicastHint = "use the unicast address of a host"

// hostAddress is that of a station in a segment: unicast, without a zone.
type hostAddress struct{ netip.Addr }

func (a *hostAddress) parse(text string) *problem {
	addr, p := parseAddress(text)
	if p == nil {
		p = checkHost(text, addr, unicastHint)
	}
	if p == nil {
		a.Addr = addr
	}
	return p
}

// JSONSchema is called by the reflector.
func (hostAddress) JSONSchema() *jsonschema.Schema { return addressSchema() }

// remoteRef is another edge: one of its tunnel endpoints, or its name. remoteChecker
// makes Addr the edge's first address.
type remoteRef struct {
	netip.Addr
	text string
}

func (r *remoteRef) parse(text string) *problem {
	if objectNamePattern.MatchString(text) {
		r.text = text
		return nil
	}
	var a address
	if p := a.parse(text); p != nil {
		return p
	}
	r.Addr, r.text = a.Addr, text
	return nil
}

// String is the reference as it was written.
func (r remoteRef) String() string { return r.text }

// JSONSchema is called by the reflector.
func (remoteRef) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", AnyOf: []*jsonschema.Schema{
		{Format: "ipv4"}, {Format: "ipv6"}, {Pattern: objectNamePattern.String()},
	}}
}

// parseAddress reads an address of either family.
func parseAddress(text string) (netip.Addr, *problem) {
	addr, err := netip.ParseAddr(text)
	if err == nil {
		return addr, nil
	}
	hint := "write it like 192.0.2.1 or 2001:db8::1"
	if prefix, err := netip.ParsePrefix(text); err == nil {
		hint = fmt.Sprintf("leave out the prefix length: %s", prefix.Addr())
	}
	return addr, &problem{fmt.Sprintf("%q is not an IP address", text), hint}
}

// checkHost says what keeps addr from being one host's; own is what to write.
func checkHost(text string, addr netip.Addr, own string) *problem {
	switch {
	case addr.Is4In6():
		return &problem{fmt.Sprintf("%s is an IPv4 address in IPv6 form", text), fmt.Sprintf("write it as %s", addr.Unmap())}
	case addr.IsUnspecified():
		return &problem{fmt.Sprintf("%s is the unspecified address", text), own}
	case addr.IsMulticast():
		return &problem{fmt.Sprintf("%s is a multicast address", text), own}
	case addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return &problem{fmt.Sprintf("%s is the broadcast address", text), own}
	case addr.IsLoopback():
		return &problem{fmt.Sprintf("%s never leaves the host", text), own}
	case addr.Zone() != "":
		return &problem{fmt.Sprintf("%s names an interface of this host", text), "leave out the % and what follows"}
	}
	return nil
}

// interfacePrefix is an address with the prefix of its network, as in
// 10.0.0.254/24.
type interfacePrefix struct{ netip.Prefix }

func (i *interfacePrefix) parse(text string) *problem {
	prefix, p := parsePrefix(text, "10.0.0.254/24 or fd00::fe/64")
	if p == nil {
		p = checkHost(text, prefix.Addr(), unicastHint)
	}
	switch {
	case p != nil:
		return p
	case prefix.Addr().IsLinkLocalUnicast():
		return &problem{fmt.Sprintf("%s is valid on one link only", prefix.Addr()),
			"leave it out: any IPv6 address adds the link-local one of the MAC address"}
	case prefix.Bits() == 0:
		return &problem{fmt.Sprintf("%s has no network", text), "give the prefix length of the network, as in /24 or /64"}
	}
	if why := nat.WhyUsed(prefix.Addr(), nat.Unassignable(prefix)); why != "" {
		return &problem{fmt.Sprintf("%s is %s", prefix.Addr(), why), "use another address of the network"}
	}
	i.Prefix = prefix
	return nil
}

// JSONSchema is called by the reflector.
func (interfacePrefix) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: prefixPattern}
}

// network is a prefix without host bits, as in 10.0.0.0/8.
type network struct{ netip.Prefix }

func (n *network) parse(text string) *problem {
	prefix, p := parsePrefix(text, "10.0.0.0/8 or 2001:db8::/32")
	switch {
	case p != nil:
		return p
	case prefix != prefix.Masked():
		return &problem{fmt.Sprintf("%s has host bits", text), fmt.Sprintf("write %s", prefix.Masked())}
	}
	n.Prefix = prefix
	return nil
}

// JSONSchema is called by the reflector.
func (network) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: prefixPattern}
}

func parsePrefix(text, like string) (netip.Prefix, *problem) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		hint := "write it like " + like
		if addr, err := netip.ParseAddr(text); err == nil {
			hint = fmt.Sprintf("add the prefix length: %s/%d is one address", addr, addr.BitLen())
		}
		return prefix, &problem{fmt.Sprintf("%q is not a prefix", text), hint}
	}
	if prefix.Addr().Is4In6() {
		return prefix, &problem{fmt.Sprintf("%s is an IPv4 prefix in IPv6 form", text), "write it like 10.0.0.0/8"}
	}
	return prefix, nil
}
