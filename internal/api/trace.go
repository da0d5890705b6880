package api

import (
	"net/netip"
	"net/url"
	"strconv"

	"github.com/selvage/selvage/internal/overlay"
)

// TraceQuery is a packet and where it comes from: a port, or a remote by a
// tunnel of a segment.
type TraceQuery struct {
	Port    string
	Remote  netip.Addr
	Segment string
	Packet  string // in the words of trace.Grammar
	// SrcMAC and DstMAC are found out where zero.
	SrcMAC, DstMAC overlay.MAC
	VLAN           uint16 // 802.1Q tag, 0 for none
	Size           int    // of the IP packet in bytes, 0: as the words say
	TTL            int    // 0: 64
}

func (q TraceQuery) values() url.Values {
	v := url.Values{}
	setIf(v, ArgPort, q.Port, q.Port != "")
	setIf(v, ArgRemote, q.Remote.String(), q.Remote.IsValid())
	setIf(v, ArgSegment, q.Segment, q.Segment != "")
	setIf(v, argPacket, q.Packet, true)
	setIf(v, argSrcMAC, q.SrcMAC.String(), q.SrcMAC != overlay.MAC{})
	setIf(v, argDstMAC, q.DstMAC.String(), q.DstMAC != overlay.MAC{})
	setIf(v, argVLAN, strconv.Itoa(int(q.VLAN)), q.VLAN != 0)
	setIf(v, argSize, strconv.Itoa(q.Size), q.Size != 0)
	setIf(v, argTTL, strconv.Itoa(q.TTL), q.TTL != 0)
	return v
}

// TraceQueryOf reads what values writes.
func TraceQueryOf(v url.Values) (TraceQuery, error) {
	a := Arguments{Values: v}
	q := TraceQuery{
		Port: a.Text(ArgPort), Remote: a.Addr(ArgRemote), Segment: a.Text(ArgSegment), Packet: a.Text(argPacket),
		SrcMAC: a.mac(argSrcMAC), DstMAC: a.mac(argDstMAC),
		VLAN: uint16(a.Number(argVLAN, 0, 4094)), Size: a.Number(argSize, 0, 65535), TTL: a.Number(argTTL, 0, 255),
	}
	return q, a.End()
}
