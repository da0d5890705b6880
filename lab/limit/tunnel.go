package limit

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/checksum"
)

// Ends are what the outer headers of a tunnel say: MAC addresses, IPv4 addresses and VNI.
type Ends struct {
	SourceMAC, DestinationMAC net.HardwareAddr
	Source, Destination       netip.Addr
	VNI                       uint32
}

// The outer headers (RFC 7348 section 5), and the first of the ports that their flows may have.
const (
	ipAt, udpAt, vxlanAt, outerLen = 14, 34, 42, 50
	vxlanPort, flowPort            = 4789, 49152
)

// template is the outer headers of a packet, of which only the lengths are missing.
func (e Ends) template() (b [outerLen]byte, err error) {
	if !e.Source.Is4() || !e.Destination.Is4() || len(e.SourceMAC) != 6 || len(e.DestinationMAC) != 6 {
		return b, fmt.Errorf("a tunnel from %s (%s) to %s (%s): only IPv4 over Ethernet", e.Source, e.SourceMAC, e.Destination, e.DestinationMAC)
	}
	copy(b[:], e.DestinationMAC)
	copy(b[6:], e.SourceMAC)
	binary.BigEndian.PutUint16(b[12:], 0x0800)
	ip := b[ipAt:udpAt]
	ip[0], ip[6], ip[8], ip[9] = 0x45, 0x40, 64, 17 // DF, TTL, UDP
	copy(ip[12:], e.Source.AsSlice())
	copy(ip[16:], e.Destination.AsSlice())
	binary.BigEndian.PutUint16(ip[10:], checksum.Of(ip))
	binary.BigEndian.PutUint16(b[udpAt:], flowPort)
	binary.BigEndian.PutUint16(b[udpAt+2:], vxlanPort)
	b[vxlanAt] = 8 // the VNI is valid
	binary.BigEndian.PutUint32(b[vxlanAt+4:], e.VNI<<8)
	return b, nil
}

// Tunnel does what [Between] does by a VXLAN tunnel: the same headers before every frame, with no
// look-up, no state and no counter.
func Tunnel(access, underlay int, e Ends) (*Wire, error) {
	template, err := e.template()
	if err != nil {
		return nil, err
	}
	spec, err := specOf(access, underlay)
	if err != nil {
		return nil, err
	}
	if err := spec.Variables[limitVarTemplate].Set(template); err != nil {
		return nil, err
	}
	var objects struct {
		Encapsulate *ebpf.Program `ebpf:"encapsulate"`
		Decapsulate *ebpf.Program `ebpf:"decapsulate"`
	}
	if err := spec.LoadAndAssign(&objects, nil); err != nil {
		return nil, err
	}
	return attachBoth(access, objects.Encapsulate, underlay, objects.Decapsulate)
}
