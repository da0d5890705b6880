package speaker

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
)

// chunk is how many routes GoBGP is given at once: it does nothing else meanwhile.
const chunk = 512

// exports are the routes that are announced. GoBGP has one table for all neighbours, and its
// policies do not know the prefixes of EVPN routes, so what a neighbour is to get of a route
// is decided here, and written on it as a mark: the large community 0:NEIGHBOUR:OUTCOME. A
// policy of GoBGP's does for each neighbour what the mark says, and takes all marks off;
// what has none for a neighbour it does not get.
type exports struct {
	mu         sync.Mutex
	bgp        *server.BgpServer
	as         uint32
	neighbours []exported
	routes     map[evpn.Key]evpn.Route
	// marks are those of each route as it is in GoBGP, whose key has no uplink.
	marks      map[evpn.Key][]mark
	numbers    map[netip.Addr]uint32
	outcomes   map[outcome]uint32
	known      map[mark]outcome
	stale      bool // GoBGP lacks a statement for one of known
	advertised map[counted]uint64
}

// exported is what exports know of a neighbour.
type exported struct {
	conf   overlay.BGPNeighbour
	export []overlay.RoutePolicy
}

// counted are the routes of a family that a neighbour gets.
type counted struct {
	neighbour uint32
	family    bgp.Family
}

func newExports(b *server.BgpServer) *exports {
	return &exports{
		bgp: b, routes: map[evpn.Key]evpn.Route{}, marks: map[evpn.Key][]mark{}, numbers: map[netip.Addr]uint32{},
		outcomes: map[outcome]uint32{}, known: map[mark]outcome{}, advertised: map[counted]uint64{},
	}
}

// configure sets who gets routes, and announces all of them anew where that changed.
func (x *exports) configure(b overlay.BGP) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.as = b.AS
	x.neighbours = x.neighbours[:0]
	for _, n := range b.Neighbours {
		x.neighbours = append(x.neighbours, exported{n, policiesOf(b, n.Export)})
		if _, known := x.numbers[n.Addr]; !known {
			x.numbers[n.Addr] = uint32(len(x.numbers) + 1)
		}
	}
	changed := make(map[evpn.Key]bool)
	for key := range x.routes {
		key.Uplink = ""
		changed[key] = true
	}
	return x.put(changed)
}

// wire is the key of a route in GoBGP, where those of all uplinks are one.
func wire(k evpn.Key) evpn.Key {
	k.Uplink = ""
	return k
}

// add announces routes, or what changed of them. Of those that cannot be announced the error
// says why; the others are.
func (x *exports) add(routes []evpn.Route, nextHop netip.Addr) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	var errs []error
	changed, lower := make(map[evpn.Key]bool, len(routes)), make(map[overlay.MAC]bool)
	for _, r := range routes {
		if !r.NextHop.IsValid() {
			r.NextHop = nextHop
		}
		if err := checkRoute(r); err != nil {
			errs = append(errs, fmt.Errorf("announce %s: %w", describe(r.Key), err))
			continue
		}
		if old, exists := x.routes[r.Key]; exists && r.Type == evpn.MACIP && old.Sequence > r.Sequence {
			lower[r.MAC] = true
		}
		x.routes[r.Key] = r
		changed[wire(r.Key)] = true
	}
	if len(lower) != 0 {
		errs = append(errs, x.forget(lower, changed))
	}
	return errors.Join(append(errs, x.put(changed))...)
}

// forget takes all routes of MAC addresses out of GoBGP, to be put back: it refuses a
// sequence number that is lower than that of another route of the address.
func (x *exports) forget(macs map[overlay.MAC]bool, changed map[evpn.Key]bool) error {
	var gone []*apiutil.Path
	for key := range x.marks {
		if key.Type == evpn.MACIP && macs[key.MAC] {
			path, err := withdrawal(key)
			if err != nil {
				return err
			}
			gone, changed[key] = append(gone, path), true
		}
	}
	return x.delete(gone)
}

// take takes routes back.
func (x *exports) take(keys []evpn.Key) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	changed := make(map[evpn.Key]bool, len(keys))
	for _, key := range keys {
		if _, announced := x.routes[key]; announced {
			delete(x.routes, key)
			changed[wire(key)] = true
		}
	}
	return x.put(changed)
}

// put brings routes in GoBGP to what is announced of them.
func (x *exports) put(changed map[evpn.Key]bool) error {
	var errs []error
	var paths, gone []*apiutil.Path
	for key := range changed {
		base, marks, announced := x.classify(key)
		x.count(key, marks, announced)
		path, err := pathOf(key, base, marks, announced)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("announce %s: %w", describe(key), err))
		case announced:
			paths = append(paths, path)
		default:
			gone = append(gone, path)
		}
	}
	if x.stale {
		errs = append(errs, x.setPolicies())
	}
	errs = append(errs, x.delete(gone))
	for part := range slices.Chunk(paths, chunk) {
		if _, err := x.bgp.AddPath(apiutil.AddPathRequest{Paths: part}); err != nil {
			errs = append(errs, fmt.Errorf("announce: %w", err))
		}
	}
	return errors.Join(errs...)
}

func (x *exports) delete(paths []*apiutil.Path) error {
	for part := range slices.Chunk(paths, chunk) {
		if err := x.bgp.DeletePath(apiutil.DeletePathRequest{Paths: part}); err != nil {
			return fmt.Errorf("withdraw: %w", err)
		}
	}
	return nil
}

// classify decides who gets a route, and how. Of a unicast prefix that several uplinks announce
// the first by name makes the attributes; the next hop is that of each.
func (x *exports) classify(key evpn.Key) (base evpn.Route, marks []mark, announced bool) {
	if key.Type != evpn.Unicast {
		base, announced = x.routes[key]
	} else {
		for _, n := range x.neighbours {
			k := key
			k.Uplink = n.conf.Uplink
			if r, ok := x.routes[k]; ok && (!announced || r.Uplink < base.Uplink) {
				base, announced = r, true
			}
		}
	}
	if !announced {
		return base, nil, false
	}
	for _, n := range x.neighbours {
		if out, ok := x.outcomeOf(n, key, base); ok {
			marks = append(marks, x.mark(n.conf.Addr, out))
		}
	}
	return base, marks, true
}

// outcomeOf is how a neighbour gets a route, if it does.
func (x *exports) outcomeOf(n exported, key evpn.Key, base evpn.Route) (out outcome, ok bool) {
	r := base
	if key.Type == evpn.Unicast {
		key.Uplink = n.conf.Uplink
		if r, ok = x.routes[key]; !ok {
			return out, false
		}
	}
	if !slices.ContainsFunc(n.conf.Families, func(f overlay.BGPFamily) bool { return families[f] == familyOf(key) }) {
		return out, false
	}
	v := classify(n.export, &r)
	if v.reject {
		return out, false
	}
	if r.NextHop != base.NextHop {
		out.nextHop = r.NextHop
	}
	if v.localPref != nil {
		out.localPref, out.hasLocalPref = *v.localPref, true
	}
	if v.med != nil {
		out.med, out.hasMED = *v.med, true
	}
	for _, c := range v.add {
		out.communities += fmt.Sprintf(" %d:%d", c>>16, c&0xffff)
	}
	out.prepend = v.prepend
	return out, true
}

// count notes the marks of a route, or that it is gone.
func (x *exports) count(key evpn.Key, marks []mark, announced bool) {
	for _, m := range x.marks[key] {
		x.advertised[counted{m.neighbour, familyOf(key)}]--
	}
	for _, m := range marks {
		x.advertised[counted{m.neighbour, familyOf(key)}]++
	}
	if !announced {
		delete(x.marks, key)
		return
	}
	x.marks[key] = marks
}

func (x *exports) counts(n netip.Addr, f bgp.Family) uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.advertised[counted{x.numbers[n], f}]
}

func pathOf(key evpn.Key, base evpn.Route, marks []mark, announced bool) (*apiutil.Path, error) {
	if announced {
		return announcement(base, marks)
	}
	return withdrawal(key)
}

func announcement(r evpn.Route, marks []mark) (*apiutil.Path, error) {
	nlri, attrs, err := Encode(r)
	if err != nil {
		return nil, err
	}
	if len(marks) != 0 {
		values := make([]*bgp.LargeCommunity, len(marks))
		for i, m := range marks {
			values[i] = bgp.NewLargeCommunity(0, m.neighbour, m.outcome)
		}
		attrs = append(attrs, bgp.NewPathAttributeLargeCommunities(values))
	}
	return &apiutil.Path{Family: familyOf(r.Key), Nlri: nlri, Attrs: attrs}, nil
}

func withdrawal(key evpn.Key) (*apiutil.Path, error) {
	nlri, err := EncodeKey(evpn.Route{Key: key})
	if err != nil {
		return nil, err
	}
	// GoBGP makes an attribute of the next hop also of what goes.
	hop := netip.IPv4Unspecified()
	if familyOf(key) == bgp.RF_IPv6_UC {
		hop = netip.IPv6Unspecified()
	}
	reach, err := bgp.NewPathAttributeMpReachNLRI(familyOf(key), []bgp.PathNLRI{{NLRI: nlri}}, hop)
	if err != nil {
		return nil, err
	}
	return &apiutil.Path{Family: familyOf(key), Nlri: nlri, Withdrawal: true, Attrs: []bgp.PathAttributeInterface{reach}}, nil
}

// describe names a route in errors.
func describe(k evpn.Key) string {
	switch k.Type {
	case evpn.MACIP:
		return strings.TrimSuffix(fmt.Sprintf("host %s %s", k.MAC, k.Addr), " invalid IP")
	case evpn.Multicast:
		return fmt.Sprintf("multicast of %s", k.Addr)
	default:
		return "prefix " + k.Prefix.String()
	}
}
