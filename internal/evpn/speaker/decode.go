package speaker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/evpn/message"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// defaultLocalPref is that of routes that say none, as those of other AS do.
const defaultLocalPref = 100

func octets(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

// decodeKey reads the NLRI of a route into what it says.
func decodeKey(nlri bgp.NLRI) (evpn.Route, error) {
	switch n := nlri.(type) {
	case *bgp.IPAddrPrefix:
		return evpn.Route{Key: evpn.Key{Prefix: n.Prefix.Masked()}}, nil
	case *bgp.EVPNNLRI:
		switch d := n.RouteTypeData.(type) {
		case *bgp.EVPNMacIPAdvertisementRoute:
			return decodeMACIP(d)
		case *bgp.EVPNMulticastEthernetTagRoute:
			return decodeMulticast(d)
		case *bgp.EVPNIPPrefixRoute:
			return decodePrefix(d)
		}
		return evpn.Route{}, fmt.Errorf("EVPN route type %d", n.RouteType)
	}
	return evpn.Route{}, fmt.Errorf("NLRI %T", nlri)
}

func decodeMACIP(d *bgp.EVPNMacIPAdvertisementRoute) (evpn.Route, error) {
	rd, err := decodeRD(d.RD)
	if err != nil {
		return evpn.Route{}, err
	}
	if d.MacAddressLength != 48 || len(d.MacAddress) != 6 {
		return evpn.Route{}, fmt.Errorf("MAC address of %d bits", d.MacAddressLength)
	}
	r := evpn.Route{Key: evpn.Key{Type: evpn.MACIP, RD: rd, Tag: d.ETag, MAC: overlay.MAC(d.MacAddress), Addr: d.IPAddress.Unmap()}, ESI: decodeESI(d.ESI)}
	if r.MAC == (overlay.MAC{}) || r.MAC.Multicast() {
		return evpn.Route{}, fmt.Errorf("%s is no host's MAC address", r.MAC)
	}
	if err := checkHost(r.Addr); err != nil {
		return evpn.Route{}, err
	}
	switch len(d.Labels) {
	case 2:
		r.L3VNI = overlay.VNI(d.Labels[1])
		fallthrough
	case 1:
		r.VNI = overlay.VNI(d.Labels[0])
	default:
		return evpn.Route{}, fmt.Errorf("%d labels, not one or two", len(d.Labels))
	}
	return r, nil
}

// checkHost refuses addresses that no host has; unset is none.
func checkHost(addr netip.Addr) error {
	if addr.IsValid() && (addr.IsUnspecified() || addr.IsMulticast() || addr.IsLoopback()) {
		return fmt.Errorf("%s is no host's address", addr)
	}
	return nil
}

func decodeMulticast(d *bgp.EVPNMulticastEthernetTagRoute) (evpn.Route, error) {
	rd, err := decodeRD(d.RD)
	if err != nil {
		return evpn.Route{}, err
	}
	if !d.IPAddress.IsValid() {
		return evpn.Route{}, errors.New("no originator")
	}
	return evpn.Route{Key: evpn.Key{Type: evpn.Multicast, RD: rd, Tag: d.ETag, Addr: d.IPAddress.Unmap()}}, nil
}

func decodePrefix(d *bgp.EVPNIPPrefixRoute) (evpn.Route, error) {
	rd, err := decodeRD(d.RD)
	if err != nil {
		return evpn.Route{}, err
	}
	// A prefix within ::ffff:0:0/96 stays one of IPv6: its length says so.
	prefix, err := d.IPPrefix.Prefix(int(d.IPPrefixLength))
	if err != nil {
		return evpn.Route{}, fmt.Errorf("prefix %s/%d: %w", d.IPPrefix, d.IPPrefixLength, err)
	}
	r := evpn.Route{Key: evpn.Key{Type: evpn.Prefix, RD: rd, Tag: d.ETag, Prefix: prefix}, ESI: decodeESI(d.ESI), VNI: overlay.VNI(d.Label)}
	if d.GWIPAddress.IsValid() && !d.GWIPAddress.IsUnspecified() {
		r.Gateway = d.GWIPAddress
	}
	return r, nil
}

func decodeRD(rd bgp.RouteDistinguisherInterface) (overlay.RouteDistinguisher, error) {
	if rd == nil {
		return 0, errors.New("no route distinguisher")
	}
	if _, unknown := rd.(*bgp.RouteDistinguisherUnknown); unknown {
		return 0, errors.New("route distinguisher of an unknown type")
	}
	b, err := rd.Serialize()
	if err != nil || len(b) != 8 {
		return 0, errors.New("route distinguisher that is none")
	}
	return overlay.RouteDistinguisher(binary.BigEndian.Uint64(b)), nil
}

func decodeESI(esi bgp.EthernetSegmentIdentifier) (out [10]byte) {
	out[0] = uint8(esi.Type)
	copy(out[1:], esi.Value)
	return out
}

// decode reads a route that was announced.
func decode(nlri bgp.NLRI, attrs []bgp.PathAttributeInterface) (evpn.Route, error) {
	r, err := decodeKey(nlri)
	if err != nil {
		return r, err
	}
	r.LocalPref = defaultLocalPref
	for _, attr := range attrs {
		decodeAttribute(&r, attr)
	}
	switch {
	case !r.NextHop.IsValid() || r.NextHop.IsUnspecified() || r.NextHop.IsMulticast():
		return r, errors.New("no next hop that is one")
	case r.Type == evpn.Multicast && r.VNI == 0:
		return r, errors.New("no ingress replication: other ways to carry broadcasts are not understood")
	}
	return r, nil
}

func decodeAttribute(r *evpn.Route, attr bgp.PathAttributeInterface) {
	switch a := attr.(type) {
	case *bgp.PathAttributeNextHop:
		r.NextHop = a.Value.Unmap()
	case *bgp.PathAttributeMpReachNLRI:
		r.NextHop = a.Nexthop.Unmap()
	case *bgp.PathAttributeMultiExitDisc:
		r.MED = a.Value
	case *bgp.PathAttributeLocalPref:
		r.LocalPref = a.Value
	case *bgp.PathAttributeAsPath:
		for _, segment := range a.Value {
			r.ASPath = append(r.ASPath, segment.GetAS()...)
		}
	case *bgp.PathAttributeCommunities:
		for _, c := range a.Value {
			r.Communities = append(r.Communities, overlay.Community(c))
		}
	case *bgp.PathAttributePmsiTunnel:
		if r.Type == evpn.Multicast && a.TunnelType == bgp.PMSI_TUNNEL_TYPE_INGRESS_REPL {
			r.VNI = overlay.VNI(a.Label)
		}
	case *bgp.PathAttributeExtendedCommunities:
		for _, c := range a.Value {
			decodeExtended(r, c)
		}
	}
}

// decodeEncapsulation notes a tunnel type; of several one that is known.
func decodeEncapsulation(r *evpn.Route, tunnel bgp.TunnelType) {
	for name, t := range tunnelTypes {
		if tunnel == t {
			r.Encapsulation = name
			return
		}
	}
	if r.Encapsulation == "" {
		r.Encapsulation = overlay.Encapsulation(fmt.Sprintf("tunnel type %d", tunnel))
	}
}

func decodeExtended(r *evpn.Route, c bgp.ExtendedCommunityInterface) {
	switch c := c.(type) {
	case *bgp.EncapExtended:
		decodeEncapsulation(r, c.TunnelType)
	case *bgp.RouterMacExtended:
		if len(c.Mac) == 6 {
			r.RouterMAC = overlay.MAC(c.Mac)
		}
	case *bgp.MacMobilityExtended:
		r.Sequence, r.Sticky = c.Sequence, c.IsSticky
	case *bgp.DefaultGatewayExtended:
		r.DefaultGateway = true
	case *bgp.UnknownExtended:
		if c.Type == message.NDType && len(c.Value) == 7 && c.Value[0] == subTypeND {
			r.ND = rib.NDFlags(c.Value[1])
		}
	default:
		if _, subType := c.GetTypes(); subType != bgp.EC_SUBTYPE_ROUTE_TARGET {
			return
		}
		if b, err := c.Serialize(); err == nil && len(b) == 8 && b[0] <= 2 {
			r.Targets = append(r.Targets, overlay.RouteTarget(binary.BigEndian.Uint64(b)))
		}
	}
}
