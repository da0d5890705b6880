package pkttest

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/gopacket/gopacket/layers"
)

// TCP flags as they stand in the header's 14th byte (RFC 9293 section 3.1).
const (
	FIN = 1 << iota
	SYN
	RST
	PSH
	ACK
	URG
	ECE
	CWR
)

var flagWords = [8]string{"fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"}

// NoScale is the Scale of a segment without that option.
const NoScale = 255

// Segment is what a TCP header says.
type Segment struct {
	SrcPort, DstPort uint16
	Seq, Ack         uint32
	Flags            uint8
	Window           uint16
	Scale            uint8 // option of RFC 7323, NoScale without it
	Payload          int   // bytes
}

// Next is the sequence number behind the segment: SYN and FIN count one each.
func (s Segment) Next() uint32 {
	n := s.Seq + uint32(s.Payload)
	if s.Flags&SYN != 0 {
		n++
	}
	if s.Flags&FIN != 0 {
		n++
	}
	return n
}

// String is the flags joined by "+", and the size of the payload when there is one.
func (s Segment) String() string {
	words := FlagWords(s.Flags)
	if s.Payload > 0 {
		words += fmt.Sprintf(" %d", s.Payload)
	}
	return words
}

// FlagWords are flags as TCP reads them, "none" without any.
func FlagWords(flags uint8) string {
	var list []string
	for i, word := range flagWords {
		if flags>>i&1 == 1 && word != "psh" {
			list = append(list, word)
		}
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, "+")
}

// TCPOf is the TCP segment in a frame without tags and tunnels; false when it has none.
func TCPOf(frame []byte) (Segment, bool) {
	d := DissectTunnels(frame, 0)
	for _, h := range d.Headers {
		if h.Kind == KindTCP {
			return segment(h), true
		}
	}
	return Segment{}, false
}

// SegmentOf reads a whole TCP header and what follows it.
func SegmentOf(b []byte) Segment {
	n := int(b[12]>>4) * 4
	return segment(Header{Kind: KindTCP, Bytes: b[:n], Body: b[n:]})
}

func segment(h Header) Segment {
	b := h.Bytes
	s := Segment{
		SrcPort: binary.BigEndian.Uint16(b), DstPort: binary.BigEndian.Uint16(b[2:]),
		Seq: binary.BigEndian.Uint32(b[4:]), Ack: binary.BigEndian.Uint32(b[8:]),
		Flags: b[13], Window: binary.BigEndian.Uint16(b[14:]), Scale: NoScale, Payload: len(h.Body),
	}
	for options := b[20:]; len(options) > 0 && options[0] != 0; {
		if options[0] == 1 {
			options = options[1:]
			continue
		}
		if len(options) < 2 || options[1] < 2 || int(options[1]) > len(options) {
			break
		}
		if options[0] == 3 && options[1] == 3 {
			s.Scale = options[2]
		}
		options = options[options[1]:]
	}
	return s
}

// WindowScale is a TCP option (RFC 7323 section 2.2).
func WindowScale(shift uint8) layers.TCPOption {
	return layers.TCPOption{OptionType: layers.TCPOptionKindWindowScale, OptionLength: 3, OptionData: []byte{shift}}
}

// ResetFor is the frame that refuses a TCP segment in its destination's name (RFC 9293
// section 3.10.7.1): nil for a reset, which is never answered.
func ResetFor(frame []byte) []byte {
	d := DissectTunnels(frame, 0)
	var ip, tcp Header
	for _, h := range d.Headers {
		switch h.Kind {
		case KindIPv4, KindIPv6:
			ip = h
		case KindTCP:
			tcp = h
		}
	}
	if tcp.Kind == "" || tcp.Bytes[13]&RST != 0 {
		return nil
	}
	s := segment(tcp)
	h := &layers.TCP{SrcPort: layers.TCPPort(s.DstPort), DstPort: layers.TCPPort(s.SrcPort), RST: true}
	if s.Flags&ACK != 0 {
		h.Seq = s.Ack
	} else {
		h.ACK, h.Ack = true, s.Next()
	}
	src, dst := addresses(ip)
	eth := &Ethernet{Dst: frame[6:12], Src: frame[:6]}
	return Packet(eth, network(dst, src), h)
}
