package policy

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// What a service is looked up by: the protocol, whether the ports are known, and the
// destination port, or else the ICMP type and code. A protocol's keys lie together, and
// those of packets without known ports are one key before the others.
const (
	protocolShift = 17
	portedBit     = 1 << 16
	portKeys      = 1<<16 - 1
	protocolKeys  = 1<<protocolShift - 1
	lastService   = 255<<protocolShift | protocolKeys
)

func serviceKey(protocol uint8, port uint16, ported bool) uint32 {
	key := uint32(protocol) << protocolShift
	if ported {
		key |= portedBit | uint32(port)
	}
	return key
}

// box is a part of a service: keys by source ports.
type box struct {
	first, last             uint32 // service keys
	sourceFirst, sourceLast uint32 // ports
}

// everyService is the box of a rule that asks for none.
var everyService = box{0, lastService, 0, portKeys}

func (b box) anySource() bool { return b.sourceFirst == 0 && b.sourceLast == portKeys }

func (b box) contains(inner box) bool {
	return b.first <= inner.first && inner.last <= b.last &&
		b.sourceFirst <= inner.sourceFirst && inner.sourceLast <= b.sourceLast
}

// boxesOf is a rule's services.
func boxesOf(services []overlay.Service) ([]box, error) {
	if len(services) == 0 {
		return []box{everyService}, nil
	}
	boxes := make([]box, 0, len(services))
	for i, s := range services {
		b, err := boxesOfOne(s)
		if err != nil {
			return nil, fmt.Errorf("service %d: %w", i+1, err)
		}
		boxes = append(boxes, b...)
	}
	return merged(boxes), nil
}

// merged joins boxes that overlap or touch, where their source ports are the same.
func merged(boxes []box) []box {
	slices.SortFunc(boxes, func(a, b box) int {
		return cmp.Or(cmp.Compare(a.sourceFirst, b.sourceFirst), cmp.Compare(a.sourceLast, b.sourceLast), cmp.Compare(a.first, b.first))
	})
	out := boxes[:1]
	for _, b := range boxes[1:] {
		end := &out[len(out)-1]
		if b.sourceFirst == end.sourceFirst && b.sourceLast == end.sourceLast && b.first <= end.last+1 {
			end.last = max(end.last, b.last)
		} else {
			out = append(out, b)
		}
	}
	return out
}

func boxesOfOne(s overlay.Service) ([]box, error) {
	if s.Protocol == overlay.AnyProtocol {
		if len(s.Ports)+len(s.SourcePorts) > 0 {
			return nil, fmt.Errorf("ports need a protocol: tcp, udp or sctp")
		}
		return []box{everyService}, nil
	}
	if s.Protocol < 0 || s.Protocol > 255 {
		return nil, fmt.Errorf("there is no IP protocol %d", s.Protocol)
	}
	switch s.Protocol {
	case protoTCP, protoUDP, protoSCTP:
		return portBoxes(s)
	}
	if len(s.Ports)+len(s.SourcePorts) > 0 {
		return nil, fmt.Errorf("IP protocol %d has no ports; tcp, udp and sctp have", s.Protocol)
	}
	if s.Protocol == protoICMP || s.Protocol == protoICMPv6 {
		return icmpBox(s)
	}
	return []box{wholeProtocol(s.Protocol)}, nil
}

const (
	protoICMP   = 1
	protoTCP    = 6
	protoUDP    = 17
	protoICMPv6 = 58
	protoSCTP   = 132
)

func wholeProtocol(protocol int) box {
	first := uint32(protocol) << protocolShift
	return box{first, first | protocolKeys, 0, portKeys}
}

func portBoxes(s overlay.Service) ([]box, error) {
	if len(s.Ports)+len(s.SourcePorts) == 0 {
		return []box{wholeProtocol(s.Protocol)}, nil
	}
	every := []overlay.PortRange{{First: 0, Last: portKeys}}
	ports, sources := s.Ports, s.SourcePorts
	if len(ports) == 0 {
		ports = every
	}
	if len(sources) == 0 {
		sources = every
	}
	base := serviceKey(uint8(s.Protocol), 0, true)
	boxes := make([]box, 0, len(ports)*len(sources))
	for _, p := range ports {
		for _, q := range sources {
			if p.First > p.Last || q.First > q.Last {
				return nil, fmt.Errorf("a range of ports ends before it begins")
			}
			boxes = append(boxes, box{base + uint32(p.First), base + uint32(p.Last), uint32(q.First), uint32(q.Last)})
		}
	}
	return boxes, nil
}

func icmpBox(s overlay.Service) ([]box, error) {
	switch {
	case s.ICMPType > 255 || s.ICMPCode > 255:
		return nil, fmt.Errorf("ICMP types and codes end at 255")
	case s.ICMPType < 0 && s.ICMPCode >= 0:
		return nil, fmt.Errorf("an ICMP code needs a type")
	case s.ICMPType < 0:
		return []box{wholeProtocol(s.Protocol)}, nil
	}
	first := serviceKey(uint8(s.Protocol), uint16(s.ICMPType)<<8, true)
	if s.ICMPCode < 0 {
		return []box{{first, first + 255, 0, portKeys}}, nil
	}
	key := first + uint32(s.ICMPCode)
	return []box{{key, key, 0, portKeys}}, nil
}
