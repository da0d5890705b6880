package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/selvage/selvage/internal/overlay"
)

// routerID is 4 octets in the form of an address, which nobody needs to have.
type routerID struct{ netip.Addr }

func (r *routerID) parse(text string) *problem {
	addr, err := netip.ParseAddr(text)
	if err != nil || !addr.Is4() || addr.IsUnspecified() {
		return &problem{fmt.Sprintf("%q is not a router ID", text), "write it like the IPv4 address 192.0.2.1, a different one for each speaker"}
	}
	r.Addr = addr
	return nil
}

// JSONSchema is called by the reflector.
func (routerID) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Format: "ipv4"}
}

// speakerAddress is an end of a session, which may be on this host.
type speakerAddress struct{ netip.Addr }

func (a *speakerAddress) parse(text string) *problem {
	addr, p := parseAddress(text)
	if p == nil && !addr.IsLoopback() {
		p = checkHost(text, addr.WithZone(""), "use the unicast address of a speaker")
	}
	switch {
	case p != nil:
		return p
	case addr.IsLinkLocalUnicast() || addr.Zone() != "":
		return &problem{fmt.Sprintf("%s is valid on one link only", text), "use a global or unique local address"}
	}
	a.Addr = addr
	return nil
}

// JSONSchema is called by the reflector.
func (speakerAddress) JSONSchema() *jsonschema.Schema { return addressSchema() }

// bgpPort is where speakers listen (RFC 4271 section 8.2.1.1).
const bgpPort = 179

// listenAddress is an address of this host, 0.0.0.0 or :: for all, with a port or that of BGP.
type listenAddress struct{ netip.AddrPort }

func (l *listenAddress) parse(text string) *problem {
	at, err := netip.ParseAddrPort(text)
	if err != nil {
		addr, p := parseAddress(text)
		if p != nil {
			p.hint = "write it like 192.0.2.1, 192.0.2.1:179, 2001:db8::1 or [2001:db8::1]:179"
			return p
		}
		at = netip.AddrPortFrom(addr, bgpPort)
	}
	if at.Port() == 0 {
		return &problem{fmt.Sprintf("%s has port 0, which is not valid", text), "leave the port out, or write 179"}
	}
	if addr := at.Addr(); !addr.IsUnspecified() {
		var a speakerAddress
		if p := a.parse(addr.String()); p != nil {
			return p
		}
	}
	l.AddrPort = at
	return nil
}

// JSONSchema is called by the reflector.
func (listenAddress) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: `^[0-9A-Fa-f.:]+$|^\[[0-9A-Fa-f.:]+\]:[0-9]+$`}
}

// parseWord looks text up in what is known of its kind.
func parseWord[T ~string](text string, known []T, noun string) (T, *problem) {
	if i := slices.Index(known, T(text)); i >= 0 {
		return known[i], nil
	}
	words := each(known, func(k T) string { return string(k) })
	return "", &problem{fmt.Sprintf("%q is not a known %s", text, noun), suggest(text, words, "known ones")}
}

func wordSchema[T ~string](known []T) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Enum: each(known, func(k T) any { return string(k) })}
}

var bgpFamilies = []overlay.BGPFamily{overlay.FamilyEVPN, overlay.FamilyIPv4, overlay.FamilyIPv6}

type bgpFamily overlay.BGPFamily

func (f *bgpFamily) parse(text string) *problem {
	known, p := parseWord(text, bgpFamilies, "address family")
	*f = bgpFamily(known)
	return p
}

func (f bgpFamily) model() overlay.BGPFamily { return overlay.BGPFamily(f) }

// JSONSchema is called by the reflector.
func (bgpFamily) JSONSchema() *jsonschema.Schema { return wordSchema(bgpFamilies) }

// Prefixes that are told by type 5 routes, and those that neighbours at uplinks are told.
var (
	evpnSources    = []overlay.RouteSource{overlay.SourceConnected, overlay.SourceLoopback, overlay.SourceStatic, overlay.SourceUplink}
	unicastSources = append(slices.Clone(evpnSources), overlay.SourceEVPN, overlay.SourceEgress)
)

type evpnSource overlay.RouteSource

func (s *evpnSource) parse(text string) *problem {
	known, p := parseWord(text, evpnSources, "source of prefixes for other edges")
	*s = evpnSource(known)
	return p
}

func (s evpnSource) model() overlay.RouteSource { return overlay.RouteSource(s) }

// JSONSchema is called by the reflector.
func (evpnSource) JSONSchema() *jsonschema.Schema { return wordSchema(evpnSources) }

type unicastSource overlay.RouteSource

func (s *unicastSource) parse(text string) *problem {
	known, p := parseWord(text, unicastSources, "source of prefixes")
	*s = unicastSource(known)
	return p
}

func (s unicastSource) model() overlay.RouteSource { return overlay.RouteSource(s) }

// JSONSchema is called by the reflector.
func (unicastSource) JSONSchema() *jsonschema.Schema { return wordSchema(unicastSources) }

// secret is a password: no message has it in it.
type secret string

func (s *secret) parse(text string) *problem {
	if mistake, fix := overlay.CheckPassword(text); mistake != "" {
		return &problem{mistake, fix}
	}
	*s = secret(text)
	return nil
}

// JSONSchema is called by the reflector.
func (secret) JSONSchema() *jsonschema.Schema {
	one, most := uint64(1), uint64(overlay.MaxPassword)
	return &jsonschema.Schema{Type: "string", MinLength: &one, MaxLength: &most}
}

// seconds reads a whole number of them.
func seconds(text string, least, most time.Duration, usual string) (time.Duration, *problem) {
	value, p := parseDuration(text, "s", usual)
	switch {
	case p != nil:
		return 0, p
	case value < least || value > most:
		return 0, &problem{fmt.Sprintf("%s is outside %ds to %ds", text, least/time.Second, most/time.Second), usual + " is usual"}
	case value%time.Second != 0:
		return 0, &problem{fmt.Sprintf("%s is not a whole number of seconds", text), usual + " is usual"}
	}
	return value, nil
}

func secondsSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: `^([0-9]+(s|m|h))+$`}
}

// maxSessionTime is what 16 bits of seconds hold (RFC 4271 section 4.2).
const maxSessionTime = 65535 * time.Second

// holdTime is at least 3s (RFC 4271 section 4.2).
type holdTime time.Duration

func (*holdTime) integral() {}

func (h *holdTime) parse(text string) *problem {
	value, p := seconds(text, 3*time.Second, maxSessionTime, "9s")
	*h = holdTime(value)
	return p
}

// JSONSchema is called by the reflector.
func (holdTime) JSONSchema() *jsonschema.Schema { return secondsSchema() }

type sessionTime time.Duration

func (*sessionTime) integral() {}

func (s *sessionTime) parse(text string) *problem {
	value, p := seconds(text, time.Second, maxSessionTime, "3s")
	*s = sessionTime(value)
	return p
}

// JSONSchema is called by the reflector.
func (sessionTime) JSONSchema() *jsonschema.Schema { return secondsSchema() }

// restartTime has 12 bits (RFC 4724 section 3).
type restartTime time.Duration

func (*restartTime) integral() {}

func (r *restartTime) parse(text string) *problem {
	value, p := seconds(text, 0, 4095*time.Second, "120s")
	*r = restartTime(value)
	return p
}

// JSONSchema is called by the reflector.
func (restartTime) JSONSchema() *jsonschema.Schema { return duration(0).JSONSchema() }

// staleTime has 24 bits (RFC 9494 section 3.1).
type staleTime time.Duration

func (*staleTime) integral() {}

func (s *staleTime) parse(text string) *problem {
	value, p := seconds(text, 0, (1<<24-1)*time.Second, "1h")
	*s = staleTime(value)
	return p
}

// JSONSchema is called by the reflector.
func (staleTime) JSONSchema() *jsonschema.Schema { return duration(0).JSONSchema() }

type routeTarget struct{ overlay.RouteTarget }

const administeredHint = `write it in quotes, like "65000:10010", "192.0.2.1:7" or "4200000000:7": after an address, or an AS beyond 65535, comes a number up to 65535`

func (r *routeTarget) parse(text string) *problem {
	value, err := overlay.ParseRouteTarget(text)
	if err != nil {
		return &problem{err.Error(), administeredHint}
	}
	r.RouteTarget = value
	return nil
}

func (r routeTarget) model() overlay.RouteTarget { return r.RouteTarget }

// administeredPattern is that of route targets and distinguishers.
const administeredPattern = `^[0-9]+(\.[0-9]+){0,3}:[0-9]+$`

// JSONSchema is called by the reflector.
func (routeTarget) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: administeredPattern}
}

type routeDistinguisher struct{ overlay.RouteDistinguisher }

func (r *routeDistinguisher) parse(text string) *problem {
	value, err := overlay.ParseRouteDistinguisher(text)
	switch {
	case err != nil:
		return &problem{err.Error(), administeredHint}
	case value == 0:
		return &problem{fmt.Sprintf("%s is not a usable route distinguisher", text), "leave the line out for an automatic one"}
	}
	r.RouteDistinguisher = value
	return nil
}

// JSONSchema is called by the reflector.
func (routeDistinguisher) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: administeredPattern}
}

type community struct{ overlay.Community }

func (c *community) parse(text string) *problem {
	value, err := overlay.ParseCommunity(text)
	if err != nil {
		return &problem{err.Error(), `write it like "65000:1", in quotes; names: ` + strings.Join(overlay.WellKnownCommunities(), ", ")}
	}
	c.Community = value
	return nil
}

func (c community) model() overlay.Community { return c.Community }

// JSONSchema is called by the reflector.
func (community) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: `^[0-9]+:[0-9]+$|^(` + strings.Join(overlay.WellKnownCommunities(), "|") + `)$`}
}
