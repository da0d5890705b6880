package speaker

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
)

// The types of a tunnel that the encapsulation community names (RFC 8365 section 11, RFC
// 8926 section 7).
var tunnelTypes = map[overlay.Encapsulation]bgp.TunnelType{
	overlay.VXLAN:  bgp.TUNNEL_TYPE_VXLAN,
	overlay.NVGRE:  bgp.TUNNEL_TYPE_NVGRE,
	overlay.Geneve: bgp.TUNNEL_TYPE_GENEVE,
}

// subTypeND is that of the ARP/ND extended community (RFC 9047 section 2).
const subTypeND = 0x08

// familyOf returns the address family of a route.
func familyOf(k evpn.Key) bgp.Family {
	switch {
	case k.Type != evpn.Unicast:
		return bgp.RF_EVPN
	case k.Prefix.Addr().Is6():
		return bgp.RF_IPv6_UC
	default:
		return bgp.RF_IPv4_UC
	}
}

// EncodeKey makes the NLRI of a route. What of it tells no routes apart (labels, the
// segment identifier) is r's.
func EncodeKey(r evpn.Route) (bgp.NLRI, error) {
	rd := bgp.GetRouteDistinguisher(octets(uint64(r.RD)))
	esi := bgp.EthernetSegmentIdentifier{Type: bgp.ESIType(r.ESI[0]), Value: r.ESI[1:]}
	switch r.Type {
	case evpn.Unicast:
		return bgp.NewIPAddrPrefix(r.Prefix)
	case evpn.MACIP:
		labels := []uint32{uint32(r.VNI)}
		if r.L3VNI != 0 {
			labels = append(labels, uint32(r.L3VNI))
		}
		return bgp.NewEVPNNLRI(bgp.EVPN_ROUTE_TYPE_MAC_IP_ADVERTISEMENT, &bgp.EVPNMacIPAdvertisementRoute{
			RD: rd, ESI: esi, ETag: r.Tag, MacAddressLength: 48, MacAddress: net.HardwareAddr(r.MAC[:]),
			IPAddressLength: uint8(r.Addr.BitLen()), IPAddress: r.Addr, Labels: labels,
		}), nil
	case evpn.Multicast:
		return bgp.NewEVPNMulticastEthernetTagRoute(rd, r.Tag, r.Addr)
	case evpn.Prefix:
		gateway := r.Gateway
		if !gateway.IsValid() {
			gateway = unspecified(r.Prefix.Addr())
		}
		return bgp.NewEVPNIPPrefixRoute(rd, esi, r.Tag, uint8(r.Prefix.Bits()), r.Prefix.Masked().Addr(), gateway, uint32(r.VNI))
	}
	return nil, fmt.Errorf("type %d is none that this edge announces", r.Type)
}

// unspecified returns the unspecified address of addr's family.
func unspecified(addr netip.Addr) netip.Addr {
	if addr.Is6() {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

// Encode makes the NLRI of a route that is announced, and its attributes. That one which holds the next hop of other families than
// IPv4 names the NLRI too.
func Encode(r evpn.Route) (bgp.NLRI, []bgp.PathAttributeInterface, error) {
	if err := checkRoute(r); err != nil {
		return nil, nil, err
	}
	nlri, err := EncodeKey(r)
	if err != nil {
		return nil, nil, err
	}
	attrs := []bgp.PathAttributeInterface{bgp.NewPathAttributeOrigin(bgp.BGP_ORIGIN_ATTR_TYPE_IGP)}
	if familyOf(r.Key) == bgp.RF_IPv4_UC && r.NextHop.Is4() {
		hop, err := bgp.NewPathAttributeNextHop(r.NextHop)
		if err != nil {
			return nil, nil, err
		}
		attrs = append(attrs, hop)
	} else {
		reach, err := bgp.NewPathAttributeMpReachNLRI(familyOf(r.Key), []bgp.PathNLRI{{NLRI: nlri}}, r.NextHop)
		if err != nil {
			return nil, nil, err
		}
		attrs = append(attrs, reach)
	}
	if len(r.ASPath) != 0 {
		attrs = append(attrs, bgp.NewPathAttributeAsPath([]bgp.AsPathParamInterface{bgp.NewAs4PathParam(bgp.BGP_ASPATH_ATTR_TYPE_SEQ, r.ASPath)}))
	}
	if r.MED != 0 {
		attrs = append(attrs, bgp.NewPathAttributeMultiExitDisc(r.MED))
	}
	if r.LocalPref != 0 {
		attrs = append(attrs, bgp.NewPathAttributeLocalPref(r.LocalPref))
	}
	if len(r.Communities) != 0 {
		values := make([]uint32, len(r.Communities))
		for i, c := range r.Communities {
			values[i] = uint32(c)
		}
		attrs = append(attrs, bgp.NewPathAttributeCommunities(values))
	}
	if r.Type == evpn.Multicast {
		// The label of ingress replication is the VNI (RFC 8365 section 5.1.3).
		attrs = append(attrs, bgp.NewPathAttributePmsiTunnel(bgp.PMSI_TUNNEL_TYPE_INGRESS_REPL, false,
			uint32(r.VNI), &bgp.IngressReplTunnelID{Value: r.NextHop}))
	}
	extended, err := encodeExtended(r)
	if err != nil {
		return nil, nil, err
	}
	if len(extended) != 0 {
		attrs = append(attrs, bgp.NewPathAttributeExtendedCommunities(extended))
	}
	return nlri, attrs, nil
}

// checkRoute refuses what cannot be put on the wire.
func checkRoute(r evpn.Route) error {
	switch {
	case !r.NextHop.IsValid() || r.NextHop.IsUnspecified():
		return errors.New("no next hop: give the edge a TEP, or the uplink an address")
	case r.VNI > overlay.MaxVNI || r.L3VNI > overlay.MaxVNI:
		return fmt.Errorf("VNI %d or %d does not fit 24 bits", r.VNI, r.L3VNI)
	case r.Encapsulation != "" && tunnelTypes[r.Encapsulation] == 0:
		return fmt.Errorf("encapsulation %q has no tunnel type", r.Encapsulation)
	}
	switch r.Type {
	case evpn.MACIP:
		return nil
	case evpn.Multicast:
		if !r.Addr.IsValid() {
			return errors.New("no originator")
		}
		return nil
	case evpn.Prefix, evpn.Unicast:
		return checkPrefix(r)
	}
	return fmt.Errorf("type %d is none that this edge announces", r.Type)
}

func checkPrefix(r evpn.Route) error {
	switch {
	case !r.Prefix.IsValid():
		return errors.New("no prefix")
	case r.Gateway.IsValid() && r.Gateway.Is4() != r.Prefix.Addr().Is4():
		return fmt.Errorf("gateway %s and prefix %s are of different families", r.Gateway, r.Prefix)
	case familyOf(r.Key) == bgp.RF_IPv6_UC && r.NextHop.Is4():
		return fmt.Errorf("next hop %s cannot be that of an IPv6 prefix: give the uplink an IPv6 address", r.NextHop)
	}
	return nil
}

// encodeExtended makes the extended communities of a route.
func encodeExtended(r evpn.Route) ([]bgp.ExtendedCommunityInterface, error) {
	if r.Type == evpn.Unicast {
		return nil, nil
	}
	var out []bgp.ExtendedCommunityInterface
	for _, t := range r.Targets {
		c, err := bgp.ParseExtended(octets(uint64(t)))
		if err != nil {
			return nil, fmt.Errorf("route target %s: %w", t, err)
		}
		out = append(out, c)
	}
	if r.Encapsulation != "" {
		out = append(out, bgp.NewEncapExtended(tunnelTypes[r.Encapsulation]))
	}
	if r.RouterMAC != (overlay.MAC{}) {
		out = append(out, &bgp.RouterMacExtended{Mac: net.HardwareAddr(r.RouterMAC[:])})
	}
	if r.Sequence != 0 || r.Sticky {
		out = append(out, bgp.NewMacMobilityExtended(r.Sequence, r.Sticky))
	}
	if r.DefaultGateway {
		out = append(out, bgp.NewDefaultGatewayExtended())
	}
	if r.ND != 0 { // the last, see mend.go
		out = append(out, &bgp.UnknownExtended{Type: bgp.EC_TYPE_EVPN, Value: []byte{subTypeND, byte(r.ND), 0, 0, 0, 0, 0}})
	}
	return out, nil
}
