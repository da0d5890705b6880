package datapath

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/overlay"
)

// Loop is a probe that came back: something joins the port that sent it with another place of its segment.
type Loop struct {
	Port string // that sent it
	At   string // the port or remote where it came back
	// Younger is the port to cut: of two ports that whose interface, or VLAN, was made later.
	Younger string
	Remote  bool // At is a remote
}

// loopGroup is where loop probes go, and loopSource where they come from; nobody learns that.
var (
	loopGroup  = net.HardwareAddr{0x03, 'S', 'E', 'L', 'V', 'G'}
	loopSource = overlay.MAC{0x02, 'S', 'E', 'L', 'V', 'G'}
)

const etherTypeCTP = 0x9000

// loopProbe is a frame as bpf/l2/loop.h reads it.
func (ev *HostEvents) loopProbe(vport uint32) []byte {
	b := ethernet(loopGroup, loopSource, etherTypeCTP)
	b = append(b, 0, 0, 1, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, ev.loopEdge)
	b = binary.LittleEndian.AppendUint64(b, ev.loopTokens[vport])
	b = binary.LittleEndian.AppendUint32(b, vport)
	return append(b, make([]byte, 60-len(b))...)
}

// ProbeLoops sends a probe out of each port that may be part of a loop. What comes back is a
// HostEvent. It must be called in the edge's network namespace.
func (ev *HostEvents) ProbeLoops() error {
	var errs []error
	for _, id := range keysOf(ev.numbers.names.ports) {
		name, vport := ev.numbers.names.ports[id], ev.numbers.vports[id]
		if vport.Flags&bpfVportFlagsVPORT_UPLINK != 0 {
			continue
		}
		err := ev.send(int(vport.Ifindex), withVLAN(ev.loopProbe(id), vport.Vlan))
		if err != nil && !errors.Is(err, unix.ENETDOWN) && !errors.Is(err, unix.ENXIO) && !errors.Is(err, unix.ENOBUFS) {
			errs = append(errs, fmt.Errorf("probe for loops at %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// CutPorts has the ports that are named be cut off from floods of their segments, and no others.
func (po *Ports) CutPorts(names map[string]bool) error {
	po.cut = names
	var errs []error
	for name, id := range po.numbers.names.portIDs {
		vport := po.numbers.vports[id]
		vport.Flags = po.loopFlag(name, vport.Flags)
		if vport.Flags == po.numbers.vports[id].Flags {
			continue
		}
		errs = append(errs, po.putVport(id, vport), po.changes.invalidatePort(id))
	}
	return errors.Join(errs...)
}

// loopFlag are the flags of a port with VPORT_LOOP as CutPorts said.
func (po *Ports) loopFlag(name string, flags bpfVportFlags) bpfVportFlags {
	if po.cut[name] {
		return flags | bpfVportFlagsVPORT_LOOP
	}
	return flags &^ bpfVportFlagsVPORT_LOOP
}

// assignLoopTokens gives each port a secret. A probe without it is not believed: no guest can have
// another's port be cut.
func (ev *HostEvents) assignLoopTokens() {
	tokens := make(map[uint32]uint64, len(ev.numbers.names.ports))
	for _, id := range keysOf(ev.numbers.names.ports) {
		tokens[id] = cmp.Or(ev.loopTokens[id], ev.prog.kernel.Random())
	}
	ev.loopTokens = tokens
}

// loop is that of a probe that came back, nil of one that is not believed.
func (n *hostEventNames) loop(e *bpfHostEvent) *Loop {
	token, ok := n.loopTokens[e.LoopVport]
	at := n.place(e.Vport)
	if !ok || token != e.LoopToken || at == "" {
		return nil
	}
	l := &Loop{Port: n.ports[e.LoopVport], At: at}
	l.Younger = l.Port
	_, l.Remote = n.remotes[e.Vport]
	if !l.Remote && n.made[e.Vport].compare(n.made[e.LoopVport]) > 0 {
		l.Younger = at
	}
	return l
}

// made is when a port was, in an order: interfaces have growing numbers.
type made struct {
	ifindex uint32
	vlan    uint16
}

func (m made) compare(o made) int {
	return cmp.Or(cmp.Compare(m.ifindex, o.ifindex), cmp.Compare(m.vlan, o.vlan))
}
