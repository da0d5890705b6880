package datapath

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/fib"
)

// hook is a place where a program sits: one interface in one role.
type hook struct {
	role    string
	ifindex int
}

// compare orders hooks by role, as in roles.
func (h hook) compare(o hook) int {
	return cmp.Or(cmp.Compare(slices.Index(roles, h.role), slices.Index(roles, o.role)), cmp.Compare(h.ifindex, o.ifindex))
}

func (h hook) String() string { return fmt.Sprintf("%s-%d", h.role, h.ifindex) }

const (
	rolePort     = "port"
	roleUnderlay = "underlay"
	// roleCoalescer is the far end of the pair of Tables.Coalescer.
	roleCoalescer = "coalescer"
	// roleTransit and roleGeneric are transit programs in and after the driver; an
	// interface has one of them at most.
	roleTransit = "transit"
	roleGeneric = "transitgeneric"
	// roleNotSent and roleNotRedirected are tracepoints (ifindex 0) that tell what the
	// exits of transit programs did not take.
	roleNotSent       = "notsent"
	roleNotRedirected = "notredirected"
)

// roles are all of them, in the order in which an edge attaches its programs. Underlay and ports come last, one right
// after the other: a connection of which a port's firewall sees one direction alone, since something else forwards the
// other, is out of state. Transit programs take longest, for the kernel verifies them then.
var roles = []string{roleNotSent, roleNotRedirected, roleCoalescer, roleTransit, roleGeneric, roleUnderlay, rolePort}

// isXDP reports whether the hook is before the kernel makes an skb.
func (h hook) isXDP() bool { return h.role == roleTransit || h.role == roleGeneric }

// isTCX reports whether the hook is where an skb comes in.
func (h hook) isTCX() bool { return !h.isXDP() && !h.isTracepoint() }

// attachment is a pinned link. current is false while it runs the programs of a
// former process.
type attachment struct {
	link    kernel.Link
	current bool
	device  fib.Transit    // what a transit program was loaded for
	program kernel.Program // one that was loaded for this hook alone, or nil
}

// id is 0 for an attachment that there is not.
func (a *attachment) id() link.ID {
	if a == nil {
		return 0
	}
	info, err := a.link.Info()
	if err != nil {
		return 0
	}
	return info.ID
}

func (a *attachment) close() error { return errors.Join(a.link.Close(), a.closeProgram()) }

func (a *attachment) closeProgram() error {
	if a.program == nil {
		return nil
	}
	return a.program.Close()
}

// adopt takes over the pinned links of a former process. Those of interfaces that are gone
// are removed, and those of roles that this build no longer has.
func (d *Datapath) adopt() error {
	if err := d.Links.adoptLinks(); err != nil {
		return err
	}
	if d.Links.adopted = len(d.Links.links) > 0; d.Links.adopted {
		d.Pins.did("adopted %d links from %s", len(d.Links.links), d.Pins.linkDir())
	}
	return d.restore()
}

func (ln *Links) adoptLinks() error {
	ln.links = make(map[hook]*attachment)
	entries, err := ln.prog.kernel.Pins.List(ln.pins.linkDir())
	if err != nil {
		return fmt.Errorf("list the pinned links: %w", err)
	}
	for _, name := range entries {
		path := filepath.Join(ln.pins.linkDir(), name)
		h, ok := parseHook(name)
		abi, outdated := ln.pins.isOutdated(h.role)
		switch {
		case ok && slices.Contains(roles, h.role):
			err = ln.adoptLink(h, path)
		case ok && outdated:
			err = ln.removeOutdated(path, abi)
		default:
			ln.pins.leave(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// adoptLink takes over one link. One that is no such link as this build makes stays, and its
// hook without a program of ours.
func (ln *Links) adoptLink(h hook, path string) error {
	l, err := ln.prog.kernel.Linker.PinnedLink(path)
	if err != nil {
		ln.pins.taken[h] = true
		ln.pins.leave(path)
		return nil
	}
	info, err := l.Info()
	if err != nil {
		return errors.Join(fmt.Errorf("look at the pinned link %s: %w", path, err), l.Close())
	}
	if !h.takes(info) {
		ln.pins.taken[h] = true
		ln.pins.leave(path)
		return l.Close()
	}
	if !isAttached(l, h.ifindex) {
		if err := errors.Join(l.Unpin(), l.Close()); err != nil {
			return fmt.Errorf("remove the link %s of a vanished interface: %w", path, err)
		}
		return nil
	}
	ln.links[h] = &attachment{link: l}
	return nil
}

// removeOutdated detaches a program of an older build in a role that there no longer is.
func (ln *Links) removeOutdated(path string, abi int) error {
	if err := ln.prog.kernel.Pins.Remove(path); err != nil {
		return fmt.Errorf("remove the link %s of ABI %d: %w", path, abi, err)
	}
	ln.pins.did("removed the link %s: ABI %d was the last with its role", path, abi)
	return nil
}

// takes reports whether a link is of the kind that this build makes for the hook.
func (h hook) takes(info kernel.LinkInfo) bool {
	switch {
	case h.isTracepoint():
		return info.IsTracing()
	case h.isXDP():
		return info.IsXDP()
	}
	return info.Attach == ebpf.AttachTCXIngress
}

// parseHook reads the name of a pinned link; the role may be another build's.
func parseHook(name string) (hook, bool) {
	role, index, _ := strings.Cut(name, "-")
	ifindex, err := strconv.Atoi(index)
	h := hook{role, ifindex}
	return h, err == nil && h.String() == name
}

// isTracepoint reports whether the hook is no interface.
func (h hook) isTracepoint() bool { return h.role == roleNotSent || h.role == roleNotRedirected }

// isAttached reports whether the link still sits on the interface; a link whose
// interface went away stays behind with index 0.
func isAttached(l kernel.Link, ifindex int) bool {
	info, err := l.Info()
	if err != nil {
		return false
	}
	return (info.IsTracing() || info.IsXDP() || info.IsTCX()) && info.Ifindex == ifindex
}

// attach brings the links to the wanted hooks: programs of a former process are
// swapped in place, without a packet in between that sees none. A driver may refuse
// a transit program. An interface that takes no program, as it vanishes now, keeps no other
// from its own.
func (ln *Links) attach(p *plan) error {
	ln.pins.lookNewer()
	maps.DeleteFunc(ln.refused, func(h hook, _ refusedTransit) bool { return !p.hooks[h] })
	var errs []error
	for _, h := range slices.SortedFunc(maps.Keys(p.hooks), hook.compare) {
		if ln.pins.taken[h] { // NewerPins says so
			continue
		}
		dev := p.devices[h]
		if r, ok := ln.refused[h]; ok && r.device == dev && time.Since(r.at) < refusalRetry {
			continue
		}
		err := ln.attachOne(h, dev)
		delete(ln.refused, h)
		if refused := (driverRefusal{}); errors.As(err, &refused) { // tc takes the packets, only later
			ln.refused[h] = refusedTransit{device: dev, at: time.Now(), why: refused.Error()}
			continue
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (ln *Links) attachOne(h hook, dev fib.Transit) error {
	a := ln.links[h]
	// The program of a tracepoint cannot be swapped.
	if a != nil && (!isAttached(a.link, h.ifindex) || h.isTracepoint() && !a.current) {
		if err := ln.detach(h); err != nil {
			return err
		}
		a = nil
	}
	if a != nil && a.current && a.device == dev {
		return nil
	}
	prog, err := ln.program(h, dev)
	if err != nil {
		return err
	}
	next := &attachment{current: true, device: dev}
	if h.isXDP() || h.isTracepoint() { // it was loaded for this hook alone
		next.program = prog
	}
	first, ahead, err := ln.pins.newerAhead(h, a)
	if err != nil {
		return errors.Join(err, next.closeProgram())
	}
	if a != nil && !ahead {
		return ln.swap(h, next, prog)
	}
	return ln.join(h, next, prog, first)
}

// join attaches next by a new link, before the one that is given. A former one ends when
// this has its place.
func (ln *Links) join(h hook, next *attachment, prog kernel.Program, before link.ID) error {
	l, err := ln.newLink(h, prog, before)
	if err != nil {
		return errors.Join(err, next.closeProgram())
	}
	next.link = l
	if ln.links[h] != nil {
		err = ln.detach(h)
	}
	if err := errors.Join(err, l.Pin(filepath.Join(ln.pins.linkDir(), h.String()))); err != nil {
		return errors.Join(fmt.Errorf("pin the link of %s: %w", h, err), next.close())
	}
	ln.links[h] = next
	return nil
}

// swap has next take over the link of the hook.
func (ln *Links) swap(h hook, next *attachment, prog kernel.Program) error {
	a := ln.links[h]
	if err := a.link.Update(prog); err != nil {
		return errors.Join(fmt.Errorf("swap the program on %s: %w", h, err), next.closeProgram())
	}
	next.link, ln.links[h] = a.link, next
	return a.closeProgram()
}

// newLink attaches a program, of tcx before the link that is given. 0 is after all others.
func (ln *Links) newLink(h hook, prog kernel.Program, before link.ID) (kernel.Link, error) {
	if h.isTracepoint() {
		l, err := ln.prog.kernel.Linker.AttachTracing(prog)
		if err != nil {
			return nil, fmt.Errorf("attach to a tracepoint: %w", err)
		}
		return l, nil
	}
	if h.isTCX() {
		l, err := ln.prog.kernel.Linker.AttachTCX(h.ifindex, prog, before)
		if err != nil {
			return nil, fmt.Errorf("attach to %s (tcx needs Linux 6.6 or newer): %w", h, err)
		}
		return l, nil
	}
	mode, other := link.XDPDriverMode, hook{roleGeneric, h.ifindex}
	if h.role == roleGeneric {
		mode, other = link.XDPGenericMode, hook{roleTransit, h.ifindex}
	}
	if _, ok := ln.links[other]; ok {
		if err := ln.detach(other); err != nil {
			return nil, err
		}
	}
	l, err := ln.prog.kernel.Linker.AttachXDP(h.ifindex, prog, mode)
	if err != nil {
		return nil, driverRefusal{fmt.Errorf("attach to %s: %w", h, err)}
	}
	return l, nil
}

// driverRefusal is a driver that takes no transit program.
type driverRefusal struct{ error }

// refusedTransit is what is remembered of it. The same is not tried again at once: the kernel verifies
// the program, for up to a second, before it asks the driver.
type refusedTransit struct {
	device fib.Transit
	at     time.Time
	why    string
}

const refusalRetry = 10 * time.Second

// program is that of the hook.
func (ln *Links) program(h hook, dev fib.Transit) (kernel.Program, error) {
	switch h.role {
	case rolePort:
		return ln.prog.objs.FromPort, nil
	case roleCoalescer:
		return ln.prog.objs.FromGro, nil
	case roleTransit, roleGeneric:
		return ln.prog.transitProgram(dev)
	case roleNotSent:
		return ln.prog.refusedProgram(devmapDropsProgNotSent)
	case roleNotRedirected:
		return ln.prog.refusedProgram(devmapDropsProgNotRedirected)
	}
	return ln.prog.objs.FromUnderlay, nil
}

func (ln *Links) detach(h hook) error {
	a := ln.links[h]
	delete(ln.links, h)
	if err := errors.Join(a.link.Unpin(), a.close()); err != nil {
		return fmt.Errorf("detach from %s: %w", h, err)
	}
	return nil
}

// detachRest removes the links that are not wanted.
func (ln *Links) detachRest(want map[hook]bool) error {
	var errs []error
	for _, h := range slices.SortedFunc(maps.Keys(ln.links), hook.compare) {
		if !want[h] {
			errs = append(errs, ln.detach(h))
		}
	}
	return errors.Join(errs...)
}
