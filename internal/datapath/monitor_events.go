package datapath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"unsafe"

	"github.com/cilium/ebpf/ringbuf"
)

// MonitorPoint is where the bytes of an event are from.
type MonitorPoint string

// The points of the data path where packets are told of.
const (
	PointIngress MonitorPoint = "ingress" // as the packet came
	PointDrop    MonitorPoint = "drop"    // as it was when it was dropped
	PointEgress  MonitorPoint = "egress"  // as it leaves
	PointCopy    MonitorPoint = "copy"    // a copy of a flooded frame, or a fragment, as it leaves
)

var monitorPoints = map[bpfMonitorPoint]MonitorPoint{
	bpfMonitorPointMONITOR_INGRESS: PointIngress, bpfMonitorPointMONITOR_DROP: PointDrop,
	bpfMonitorPointMONITOR_EGRESS: PointEgress, bpfMonitorPointMONITOR_COPY: PointCopy,
}

// PacketEvent is what programs told of a packet at one point.
type PacketEvent struct {
	AgeNS   uint64 // since then
	Packet  uint64 // the same in all events about one packet; a copy has one of its own
	First   bool   // of the events about it
	Point   MonitorPoint
	Reason  string // why it was dropped, "" if it was not
	XDP     bool   // a transit program told, else one at tc
	Ifindex int    // where it came in
	// Port or Remote is where it came from, as far as that is known; Origin is the outer source of a packet
	// from a tunnel, and VNI is the tunnel's.
	Port           string
	Remote, Origin netip.Addr
	VNI            uint32
	Segment        string
	Rule           RuleName // of the firewall, the last one that was asked, or that opened the connection
	RulePort       string   // whose firewall that was
	Decision       MonitorDecision
	Len            int // bytes of the packet
	GSOSize        int // of the packets that a large segment will be cut into; 0: it is one packet
	Inner          int // offset of the frame in a tunnel packet; 0: Bytes have no tunnel header
	Bytes          []byte
}

// MonitorDecision is what was decided about a packet. The zero one is of a packet that was refused before.
type MonitorDecision struct {
	Action     string // in words, "" where nothing was decided
	Port       string // egress
	Remote     netip.Addr
	Segment    string
	Routed     bool
	Cached     bool   // from the flow cache
	Slow       string // why each packet of the flow takes the slow path
	Translated *Translation
}

// Translation is what NAT makes of a packet's addresses and ports.
type Translation struct {
	Src, Dst netip.AddrPort
}

// ringRecord is a record as it lies in the ring.
type ringRecord struct{ raw ringbuf.Record }

const monitorHeader = int(unsafe.Offsetof(bpfMonitorEvent{}.Bytes))

// vlanTagLen is the length of an 802.1Q tag.
const vlanTagLen = 4

// Events calls do with what was told since the last call, most at a time at most, and does not wait. It reads names, so
// that nothing may change meanwhile. more: there may be others.
func (s *MonitorSession) Events(most int, do func(PacketEvent)) (more bool, err error) {
	if s.ring == nil {
		return false, nil
	}
	now, err := s.monitors.prog.kernel.Clock.Monotonic()
	if err != nil {
		return false, err
	}
	var head bpfMonitorEvent
	header := bytesOf(unsafe.Slice(&head, 1))[:monitorHeader]
	for range most {
		err := s.ring.ReadInto(&s.record.raw)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("read the monitor: %w", err)
		}
		sample := s.record.raw.RawSample
		if len(sample) < monitorHeader || len(sample) < monitorHeader+int(binary.NativeEndian.Uint32(sample[unsafe.Offsetof(head.Captured):])) {
			return false, fmt.Errorf("read the monitor: a record of %d bytes", len(sample))
		}
		copy(header, sample)
		do(s.monitors.event(&head, sample[monitorHeader:monitorHeader+int(head.Captured)], now))
	}
	return true, nil
}

// event puts what a program told into words.
func (mo *Monitors) event(h *bpfMonitorEvent, packet []byte, now uint64) PacketEvent {
	e := PacketEvent{
		AgeNS: since(now, h.Ns), Packet: h.Packet, First: h.First, Point: monitorPoints[h.Point], XDP: h.Xdp, Ifindex: int(h.Ifindex),
		Segment: mo.numbers.names.segments[uint32(h.Segment)], VNI: h.Vni & 0xffffff, Len: int(h.Len), GSOSize: int(h.GsoSize), Inner: int(h.Inner),
		Bytes: withTag(packet, h.Tag),
	}
	if h.Tag != 0 {
		e.Len += vlanTagLen
	}
	if h.Reason != 0 && int(h.Reason) < len(mo.prog.words.reasons) {
		e.Reason = mo.prog.words.reasons[h.Reason].name
	}
	if h.Vni != 0 {
		e.Origin = addrOf(h.Origin.W)
	}
	e.Port, e.Remote = mo.numbers.vportName(h.In)
	if h.Rule != 0 {
		e.Rule = mo.firewall.ruleName(h.Rule)
		e.RulePort = mo.numbers.names.ports[h.RuleVport]
	}
	if h.Decided {
		e.Decision = mo.decision(h)
	}
	return e
}

func (mo *Monitors) decision(h *bpfMonitorEvent) MonitorDecision {
	d := MonitorDecision{
		Action: actionWords[h.Action], Segment: mo.numbers.names.segments[uint32(h.ToSegment)],
		Routed: h.Flags&bpfFlowFlagsFLOW_ROUTED != 0, Cached: h.Cached,
	}
	d.Port, d.Remote = mo.numbers.vportName(h.Out)
	if int(h.Slow) < len(mo.prog.words.slows) && h.Slow != 0 {
		d.Slow = mo.prog.words.slows[h.Slow].text
	}
	if h.Flags&(bpfFlowFlagsFLOW_SNAT|bpfFlowFlagsFLOW_DNAT) != 0 && !h.Xdp {
		t := h.Translation
		d.Translated = &Translation{
			Src: netip.AddrPortFrom(addrOf(t.Src.W), wire16(t.Sport)), Dst: netip.AddrPortFrom(addrOf(t.Dst.W), wire16(t.Dport)),
		}
	}
	return d
}

// withTag is a copy of the packet, with the tag that the kernel keeps beside it.
func withTag(packet []byte, tag uint32) []byte {
	const macs = 12
	if tag == 0 || len(packet) < macs {
		return append([]byte(nil), packet...)
	}
	tagged := make([]byte, 0, len(packet)+vlanTagLen)
	tagged = append(tagged, packet[:macs]...)
	tagged = binary.NativeEndian.AppendUint32(tagged, tag)
	return append(tagged, packet[macs:]...)
}
