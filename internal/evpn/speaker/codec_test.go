package speaker

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/evpn/message"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

func target(t *testing.T, s string) overlay.RouteTarget {
	t.Helper()
	out, err := overlay.ParseRouteTarget(s)
	must(t, err)
	return out
}

// onWire puts a route into an UPDATE and takes it out again, as a session does.
func onWire(t *testing.T, r evpn.Route) evpn.Route {
	t.Helper()
	nlri, attrs, err := Encode(r)
	must(t, err)
	// GoBGP adds what all routes have.
	for _, usual := range []bgp.PathAttributeInterface{bgp.NewPathAttributeAsPath(nil), bgp.NewPathAttributeLocalPref(defaultLocalPref)} {
		if !slices.ContainsFunc(attrs, func(a bgp.PathAttributeInterface) bool { return a.GetType() == usual.GetType() }) {
			attrs = append(attrs, usual)
		}
	}
	body := &bgp.BGPUpdate{PathAttributes: attrs}
	if familyOf(r.Key) == bgp.RF_IPv4_UC && r.NextHop.Is4() {
		body.NLRI = []bgp.PathNLRI{{NLRI: nlri}}
	}
	b, err := (&bgp.BGPMessage{Header: bgp.BGPHeader{Type: bgp.BGP_MSG_UPDATE}, Body: body}).Serialize()
	must(t, err)
	out, err := readUpdate(b)
	must(t, err)
	if len(out) != 1 {
		t.Fatalf("%d routes", len(out))
	}
	return out[0]
}

// filtered is what GoBGP reads of an UPDATE.
func filtered(b []byte) ([]*bgp.BGPUpdate, error) {
	f := message.New(message.Config{Families: []message.Family{message.EVPN, message.IPv4, message.IPv6}, Discard: func(message.Discard) {}})
	var capabilities []bgp.ParameterCapabilityInterface
	for _, family := range families {
		capabilities = append(capabilities, bgp.NewCapMultiProtocol(family))
	}
	capabilities = append(capabilities, bgp.NewCapFourOctetASNumber(65000))
	open, err := bgp.NewBGPOpenMessage(65000, 90, frr4, []bgp.OptionParameterInterface{bgp.NewOptionParameterCapability(capabilities)})
	if err != nil {
		return nil, err
	}
	first, err := open.Serialize()
	if err != nil {
		return nil, err
	}
	if _, err = f.Read(nil, first); err != nil {
		return nil, err
	}
	out, err := f.Read(nil, b)
	var updates []*bgp.BGPUpdate
	for err == nil && len(out) > 0 {
		n := binary.BigEndian.Uint16(out[16:])
		var m *bgp.BGPMessage
		if m, err = bgp.ParseBGPMessage(out[:n]); err != nil {
			break
		}
		if u, ok := m.Body.(*bgp.BGPUpdate); ok {
			updates = append(updates, u)
		}
		out = out[n:]
	}
	return updates, err
}

// readUpdate decodes the routes that an UPDATE announces.
func readUpdate(b []byte) (out []evpn.Route, err error) {
	updates, err := filtered(b)
	for _, update := range updates {
		nlris := update.NLRI
		for _, a := range update.PathAttributes {
			if reach, ok := a.(*bgp.PathAttributeMpReachNLRI); ok {
				nlris = append(nlris, reach.Value...)
			}
		}
		for _, n := range nlris {
			r, err := decode(n.NLRI, update.PathAttributes)
			if err != nil {
				return out, err
			}
			out = append(out, r)
		}
	}
	return out, err
}

// What is announced is what is received.
func TestRoundTrip(t *testing.T) {
	rd := overlay.AddrDistinguisher(here4, 7)
	as4, err := overlay.ParseRouteDistinguisher("4200000001:7")
	must(t, err)
	mac := overlay.MAC{2, 0, 0, 0, 1, 1}
	routes := map[string]evpn.Route{
		"MAC": {Key: evpn.Key{Type: evpn.MACIP, RD: rd, MAC: mac}, NextHop: here4, VNI: 1<<24 - 1},
		"MAC and IPv4": {Key: evpn.Key{Type: evpn.MACIP, RD: as4, MAC: mac, Addr: netip.MustParseAddr("10.0.0.1"), Tag: 5}, NextHop: here4, VNI: 10010, L3VNI: 50099,
			Targets: []overlay.RouteTarget{target(t, "65000:10010"), target(t, "4200000001:99"), target(t, "192.0.2.1:3")}, Encapsulation: overlay.VXLAN,
			RouterMAC: overlay.MAC{2, 0, 0, 0, 9, 9}, Sequence: 1<<32 - 1},
		"MAC and IPv6, sticky, multihomed": {Key: evpn.Key{Type: evpn.MACIP, RD: rd, MAC: mac, Addr: netip.MustParseAddr("2001:db8::1")}, VNI: 1,
			NextHop: netip.MustParseAddr("2001:db8::ffff"), Sticky: true, ESI: [10]byte{3, 1, 2, 3, 4, 5, 6, 7, 8, 9}, Encapsulation: overlay.Geneve},
		"gateway":     {Key: evpn.Key{Type: evpn.MACIP, RD: rd, MAC: mac, Addr: netip.MustParseAddr("10.0.0.254")}, NextHop: here4, VNI: 1, DefaultGateway: true, Encapsulation: overlay.NVGRE},
		"multicast":   {Key: evpn.Key{Type: evpn.Multicast, RD: rd, Addr: here4}, NextHop: here4, VNI: 10010, Encapsulation: overlay.VXLAN},
		"multicast 6": {Key: evpn.Key{Type: evpn.Multicast, RD: rd, Addr: netip.MustParseAddr("2001:db8::1")}, NextHop: netip.MustParseAddr("2001:db8::1"), VNI: 3},
		"prefix":      {Key: evpn.Key{Type: evpn.Prefix, RD: rd, Prefix: netip.MustParsePrefix("10.0.0.0/8")}, NextHop: here4, VNI: 50099, RouterMAC: mac},
		"default 6":   {Key: evpn.Key{Type: evpn.Prefix, RD: rd, Prefix: netip.MustParsePrefix("::/0")}, NextHop: here4, VNI: 50099, Gateway: netip.MustParseAddr("2001:db8::9")},
		"IPv4": {Key: evpn.Key{Prefix: netip.MustParsePrefix("10.0.0.0/8")}, NextHop: here4, MED: 5, LocalPref: 200, ASPath: []uint32{65001, 4200000001},
			Communities: []overlay.Community{65000<<16 | 1, 0xffffff01}},
		"IPv4 over IPv6": {Key: evpn.Key{Prefix: netip.MustParsePrefix("0.0.0.0/0")}, NextHop: netip.MustParseAddr("2001:db8::1")},
		"IPv6":           {Key: evpn.Key{Prefix: netip.MustParsePrefix("2001:db8::/32")}, NextHop: netip.MustParseAddr("2001:db8::1")},
	}
	for name, r := range routes {
		t.Run(name, func(t *testing.T) {
			want := r
			if want.LocalPref == 0 {
				want.LocalPref = defaultLocalPref
			}
			if got := onWire(t, r); !reflect.DeepEqual(got, want) {
				t.Errorf("became\n%+v, was\n%+v", got, want)
			}
		})
	}
}

// What cannot be said is refused in words.
func TestUnspeakableRoutes(t *testing.T) {
	ok := hostRoute(1)
	for want, change := range map[string]func(*evpn.Route){
		"no next hop":        func(r *evpn.Route) { r.NextHop = netip.Addr{} },
		"24 bits":            func(r *evpn.Route) { r.L3VNI = 1 << 24 },
		"tunnel type":        func(r *evpn.Route) { r.Encapsulation = "gre" },
		"none that":          func(r *evpn.Route) { r.Type = 4 },
		"no prefix":          func(r *evpn.Route) { r.Type = evpn.Prefix },
		"no originator":      func(r *evpn.Route) { r.Type, r.Addr = evpn.Multicast, netip.Addr{} },
		"different families": func(r *evpn.Route) { r.Type, r.Prefix, r.Gateway = evpn.Prefix, netip.MustParsePrefix("::/0"), here4 },
		"an IPv6 prefix":     func(r *evpn.Route) { r.Key = evpn.Key{Prefix: netip.MustParsePrefix("::/0")} },
	} {
		r := ok
		change(&r)
		if _, _, err := Encode(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is said as %v", want, err)
		}
	}
}

// UPDATEs of FRR 8.4 as they were on the wire.
func TestFRRBytes(t *testing.T) {
	for name, c := range frrUpdates {
		t.Run(name, func(t *testing.T) {
			b, err := hex.DecodeString(c.wire)
			must(t, err)
			got, err := readUpdate(b)
			must(t, err)
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("is read as\n%+v, not as\n%+v", got, c.want)
			}
		})
	}
}

// Whatever a neighbour sends is read without harm, and what is read as a route can be said
// again and is the same.
func FuzzDecode(f *testing.F) {
	for _, c := range frrUpdates {
		b, err := hex.DecodeString(c.wire)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[bgp.BGP_HEADER_LENGTH:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 4000 {
			return
		}
		m := append(slices.Repeat([]byte{0xff}, 16), byte((len(body)+bgp.BGP_HEADER_LENGTH)>>8), byte(len(body)+bgp.BGP_HEADER_LENGTH), bgp.BGP_MSG_UPDATE)
		routes, _ := readUpdate(append(m, body...))
		for _, r := range routes {
			if checkRoute(r) != nil || strings.HasPrefix(string(r.Encapsulation), "tunnel type") || len(r.ASPath) > 255 {
				continue
			}
			again := onWire(t, r)
			if again.Key != r.Key || again.VNI != r.VNI || again.Sequence != r.Sequence || !reflect.DeepEqual(again.Targets, r.Targets) {
				t.Fatalf("%+v became %+v", r, again)
			}
		}
	})
}

// The ARP/ND extended community (RFC 9047 section 2) is the last, so that GoBGP of an older edge reads the others.
func TestNeighbourFlagsOnTheWire(t *testing.T) {
	r := hostRoute(1)
	r.Addr, r.ND, r.Sequence = netip.MustParseAddr("2001:db8::1"), rib.NDRouter|rib.NDOverride|rib.NDImmutable, 3
	_, attrs, err := Encode(r)
	must(t, err)
	extended, ok := attrs[len(attrs)-1].(*bgp.PathAttributeExtendedCommunities)
	if !ok {
		t.Fatalf("the last attribute is %v", attrs[len(attrs)-1])
	}
	b, err := extended.Value[len(extended.Value)-1].Serialize()
	must(t, err)
	if want := []byte{6, 8, 0x0b, 0, 0, 0, 0, 0}; !bytes.Equal(b, want) {
		t.Errorf("the last community is %x, want %x", b, want)
	}
	if got := onWire(t, r); got.ND != r.ND || got.Sequence != 3 {
		t.Errorf("became %+v", got)
	}
}
