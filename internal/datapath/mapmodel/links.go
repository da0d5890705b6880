package mapmodel

import (
	"fmt"
	"io/fs"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// linkState is a link as the machine has it.
type linkState struct {
	id      link.ID
	attach  ebpf.AttachType
	ifindex int
	program string
	place   int    // among the links of tcx on an interface
	pin     string // "": none
	handles int
}

// linkHandle is a link as a process has it.
type linkHandle struct {
	m *Machine
	l *linkState
}

type linker struct{ m *Machine }

// Attached is a link that a program has packets by.
type Attached struct {
	Program string
	Type    ebpf.AttachType
	Ifindex int // 0: a tracepoint
	Pin     string
}

// Attached are the links that there are, in the order in which they were made but of tcx, which are
// in that of their programs. Those of interfaces that are gone are not among them.
func (m *Machine) Attached() []Attached {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]*linkState, 0, len(m.links))
	for _, l := range m.links {
		if !m.gone[l.ifindex] {
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(a, b *linkState) int {
		if a.ifindex == b.ifindex && a.attach == b.attach && a.place != b.place {
			return a.place - b.place
		}
		return int(a.id) - int(b.id)
	})
	attached := make([]Attached, len(list))
	for i, l := range list {
		attached[i] = Attached{Program: l.program, Type: l.attach, Ifindex: l.ifindex, Pin: l.pin}
	}
	return attached
}

// AttachTCX implements kernel.Linker.
func (k linker) AttachTCX(ifindex int, p kernel.Program, before link.ID) (kernel.Link, error) {
	return k.attach(p, ebpf.AttachTCXIngress, ifindex, before)
}

// AttachXDP implements kernel.Linker.
func (k linker) AttachXDP(ifindex int, p kernel.Program, _ link.XDPAttachFlags) (kernel.Link, error) {
	return k.attach(p, ebpf.AttachXDP, ifindex, 0)
}

// AttachTracing implements kernel.Linker.
func (k linker) AttachTracing(p kernel.Program) (kernel.Link, error) {
	return k.attach(p, ebpf.AttachTraceRawTp, 0, 0)
}

func (k linker) attach(p kernel.Program, typ ebpf.AttachType, ifindex int, before link.ID) (kernel.Link, error) {
	name, err := k.m.allowAttach(p, Attach{Type: typ, Ifindex: ifindex})
	if err != nil {
		return nil, err
	}
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	if typ != ebpf.AttachTraceRawTp && (ifindex <= 0 || k.m.gone[ifindex]) {
		return nil, fmt.Errorf("attach %s to interface %d: %w", name, ifindex, unix.ENODEV)
	}
	l := &linkState{id: k.m.lastID + 1, attach: typ, ifindex: ifindex, program: name, handles: 1}
	for _, other := range k.m.links {
		if other.attach != typ || other.ifindex != ifindex || typ == ebpf.AttachTraceRawTp {
			continue
		}
		if typ == ebpf.AttachXDP {
			return nil, fmt.Errorf("attach %s to interface %d: %w", name, ifindex, unix.EBUSY)
		}
		l.place = max(l.place, other.place+1)
	}
	if before != 0 {
		if err := k.m.makePlace(l, before); err != nil {
			return nil, err
		}
	}
	k.m.lastID++
	h := &linkHandle{k.m, l}
	k.m.links[l.id], k.m.open[h] = l, true
	return h, nil
}

// makePlace puts a link of tcx before another one. The lock is held.
func (m *Machine) makePlace(l *linkState, before link.ID) error {
	anchor := m.links[before]
	if anchor == nil || anchor.attach != l.attach || anchor.ifindex != l.ifindex {
		return fmt.Errorf("attach before link %d: %w", before, unix.ENOENT)
	}
	l.place = anchor.place
	for _, other := range m.links {
		if other.attach == l.attach && other.ifindex == l.ifindex && other.place >= l.place {
			other.place++
		}
	}
	return nil
}

// allowAttach asks whether a program may be attached, and returns its name.
func (m *Machine) allowAttach(p kernel.Program, a Attach) (string, error) {
	prog, ok := p.(*program)
	if !ok || !prog.isOpen() {
		return "", fmt.Errorf("attach a program: %w", errClosed)
	}
	m.mu.Lock()
	refuse := m.faults.Attach
	m.mu.Unlock()
	if refuse == nil {
		return prog.name, nil
	}
	a.Program = prog.name
	return prog.name, refuse(a)
}

// PinnedLink implements kernel.Linker.
func (k linker) PinnedLink(name string) (kernel.Link, error) {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	n := k.m.pins[name]
	if n == nil {
		return nil, pathError("open", name, fs.ErrNotExist)
	}
	if n.link == nil {
		return nil, pathError("open", name, unix.EINVAL)
	}
	n.link.handles++
	h := &linkHandle{k.m, n.link}
	k.m.open[h] = true
	return h, nil
}

// Attached implements kernel.Linker.
func (k linker) Attached(ifindex int) ([]link.ID, error) {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	var list []*linkState
	for _, l := range k.m.links {
		if l.attach == ebpf.AttachTCXIngress && l.ifindex == ifindex {
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(a, b *linkState) int { return a.place - b.place })
	ids := make([]link.ID, len(list))
	for i, l := range list {
		ids[i] = l.id
	}
	return ids, nil
}

// Update implements kernel.Link.
func (h *linkHandle) Update(p kernel.Program) error {
	name, err := h.m.allowAttach(p, Attach{Type: h.l.attach, Ifindex: h.l.ifindex, Swap: true})
	if err != nil {
		return err
	}
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if h.m.gone[h.l.ifindex] {
		return unix.ENOLINK
	}
	h.l.program = name
	return nil
}

// Info implements kernel.Link.
func (h *linkHandle) Info() (kernel.LinkInfo, error) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if !h.m.open[h] {
		return kernel.LinkInfo{}, errClosed
	}
	i := kernel.LinkInfo{ID: h.l.id, Attach: h.l.attach, Ifindex: h.l.ifindex}
	if h.m.gone[i.Ifindex] {
		i.Ifindex = 0
	}
	return i, nil
}

// Pin implements kernel.Link.
func (h *linkHandle) Pin(name string) error {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if err := h.m.pin(name, &node{link: h.l}); err != nil {
		return err
	}
	h.l.pin = name
	return nil
}

// Unpin implements kernel.Link.
func (h *linkHandle) Unpin() error {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if h.l.pin != "" {
		h.m.unpin(h.l.pin)
	}
	return nil
}

// Close implements kernel.Link.
func (h *linkHandle) Close() error {
	if !h.m.release(h) { // as a file descriptor of the kernel's library, it may be closed twice
		return nil
	}
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	h.l.handles--
	h.m.endUnused(h.l)
	return nil
}

// endUnused detaches what is neither pinned nor open. The lock is held.
func (m *Machine) endUnused(l *linkState) {
	if l.pin == "" && l.handles == 0 {
		delete(m.links, l.id)
	}
}
