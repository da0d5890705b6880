package lockstep

import (
	"errors"
	"fmt"
	"path"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

type loader struct {
	m           *Machine
	model, host kernel.Loader
}

// program is one in both. Only the model runs it: there a test says what it does.
type program struct {
	kernel.Program
	m    *Machine
	host kernel.Program
}

// Close implements kernel.Program.
func (p program) Close() error {
	return p.m.both("close a program", p.Program.Close, func() error {
		delete(p.m.open, p.host)
		return p.host.Close()
	})
}

// Cores implements kernel.Loader.
func (l loader) Cores() (int, error) { return l.host.Cores() }

// Load implements kernel.Loader.
func (l loader) Load(spec *ebpf.CollectionSpec, pinDir string) (*kernel.Objects, error) {
	var model, host *kernel.Objects
	err := l.m.both("load", func() (err error) {
		model, err = l.model.Load(spec, pinDir)
		return err
	}, func() (err error) {
		host, err = l.host.Load(standIns(spec), pinDir)
		return err
	})
	if err != nil {
		return nil, err
	}
	return l.m.objects(model, host), nil
}

// LoadUpon implements kernel.Loader.
func (l loader) LoadUpon(spec *ebpf.CollectionSpec, shared map[string]kernel.Map) (*kernel.Objects, error) {
	models, hosts := map[string]kernel.Map{}, map[string]kernel.Map{}
	for name, m := range shared {
		t := m.(*table)
		models[name], hosts[name] = t.model, t.host
	}
	var model, host *kernel.Objects
	err := l.m.both("load upon maps", func() (err error) {
		model, err = l.model.LoadUpon(spec, models)
		return err
	}, func() (err error) {
		host, err = l.host.LoadUpon(standIns(spec), hosts)
		return err
	})
	if err != nil {
		return nil, err
	}
	return l.m.objects(model, host), nil
}

// standIns is a spec whose programs are of the same kinds, and let everything pass: the verifier
// takes a second for the true ones.
func standIns(spec *ebpf.CollectionSpec) *ebpf.CollectionSpec {
	spec = spec.Copy()
	for name, p := range spec.Programs {
		verdict := int32(0)
		if p.Type == ebpf.XDP {
			verdict = 2 // XDP_PASS
		}
		spec.Programs[name] = &ebpf.ProgramSpec{
			Name: p.Name, Type: p.Type, AttachType: p.AttachType, AttachTo: p.AttachTo, SectionName: p.SectionName, License: p.License, Flags: p.Flags,
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, verdict), asm.Return()},
		}
	}
	return spec
}

// objects are what both have loaded.
func (m *Machine) objects(model, host *kernel.Objects) *kernel.Objects {
	all := &kernel.Objects{Maps: map[string]kernel.Map{}, Programs: map[string]kernel.Program{}}
	for name := range host.Maps {
		all.Maps[name] = m.table(name, model.Maps[name], host.Maps[name])
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, p := range host.Programs {
		all.Programs[name] = program{model.Programs[name], m, p}
		m.keep(p)
	}
	return all
}

// opened is a map that both open.
func (l loader) opened(name, what string, model, host func() (kernel.PinnedMap, error)) (kernel.PinnedMap, error) {
	var a, b kernel.PinnedMap
	err := l.m.both(what, func() (err error) {
		a, err = model()
		return err
	}, func() (err error) {
		b, err = host()
		return err
	})
	if err != nil {
		return nil, err
	}
	return l.m.table(name, a, b), nil
}

// NewMap implements kernel.Loader.
func (l loader) NewMap(spec *ebpf.MapSpec) (kernel.PinnedMap, error) {
	return l.opened(spec.Name, "make the map "+spec.Name,
		func() (kernel.PinnedMap, error) { return l.model.NewMap(spec) }, func() (kernel.PinnedMap, error) { return l.host.NewMap(spec) })
}

// PinnedMap implements kernel.Loader.
func (l loader) PinnedMap(name string) (kernel.PinnedMap, error) {
	return l.opened(path.Base(name), "open "+name,
		func() (kernel.PinnedMap, error) { return l.model.PinnedMap(name) }, func() (kernel.PinnedMap, error) { return l.host.PinnedMap(name) })
}

// NewRing implements kernel.Loader. It is the model's: nothing is sent, and who waits for the kernel stops
// virtual time.
func (l loader) NewRing(m kernel.Map) (kernel.Ring, error) { return l.model.NewRing(m.(*table).model) }

// Munmap implements kernel.Loader.
func (l loader) Munmap(memory []byte) error { return l.host.Munmap(memory) }

type linker struct {
	m           *Machine
	model, host kernel.Linker
}

// attached is a link in both.
type attached struct {
	m           *Machine
	model, host kernel.Link
}

// link is one that both made or opened.
func (k linker) link(what string, model, host func() (kernel.Link, error)) (kernel.Link, error) {
	a := attached{m: k.m}
	err := k.m.both(what, func() (err error) {
		a.model, err = model()
		return err
	}, func() (err error) {
		k.m.within(func() { a.host, err = host() })
		return err
	})
	if err != nil {
		return nil, err
	}
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	k.m.keep(a.host)
	there, errHost := a.host.Info()
	own, errModel := a.model.Info()
	k.m.links[there.ID] = own.ID
	return a, errors.Join(errHost, errModel)
}

// AttachTCX implements kernel.Linker.
func (k linker) AttachTCX(ifindex int, p kernel.Program, before link.ID) (kernel.Link, error) {
	both := p.(program)
	return k.link(fmt.Sprintf("attach to interface %d", ifindex),
		func() (kernel.Link, error) { return k.model.AttachTCX(ifindex, both.Program, k.m.links[before]) },
		func() (kernel.Link, error) { return k.host.AttachTCX(ifindex, both.host, before) })
}

// AttachXDP implements kernel.Linker.
func (k linker) AttachXDP(ifindex int, p kernel.Program, mode link.XDPAttachFlags) (kernel.Link, error) {
	both := p.(program)
	return k.link(fmt.Sprintf("attach before interface %d", ifindex),
		func() (kernel.Link, error) { return k.model.AttachXDP(ifindex, both.Program, mode) },
		func() (kernel.Link, error) { return k.host.AttachXDP(ifindex, both.host, mode) })
}

// AttachTracing implements kernel.Linker.
func (k linker) AttachTracing(p kernel.Program) (kernel.Link, error) {
	both := p.(program)
	return k.link("attach to a tracepoint",
		func() (kernel.Link, error) { return k.model.AttachTracing(both.Program) },
		func() (kernel.Link, error) { return k.host.AttachTracing(both.host) })
}

// PinnedLink implements kernel.Linker.
func (k linker) PinnedLink(name string) (kernel.Link, error) {
	return k.link("open "+name,
		func() (kernel.Link, error) { return k.model.PinnedLink(name) }, func() (kernel.Link, error) { return k.host.PinnedLink(name) })
}

// Attached implements kernel.Linker.
func (k linker) Attached(ifindex int) (ids []link.ID, err error) {
	var said []link.ID
	err = k.m.both(fmt.Sprintf("list the programs of interface %d", ifindex), func() (err error) {
		said, err = k.model.Attached(ifindex)
		return err
	}, func() (err error) {
		k.m.within(func() { ids, err = k.host.Attached(ifindex) })
		for i, id := range ids {
			if len(ids) != len(said) || said[i] != k.m.links[id] {
				k.m.differ("interface %d has the links %v, in the model %v", ifindex, ids, said)
				break
			}
		}
		return err
	})
	return ids, err
}

// Update implements kernel.Link.
func (a attached) Update(p kernel.Program) error {
	both := p.(program)
	return a.m.both("swap a program", func() error { return a.model.Update(both.Program) }, func() error { return a.host.Update(both.host) })
}

// Info implements kernel.Link.
func (a attached) Info() (info kernel.LinkInfo, err error) {
	var said kernel.LinkInfo
	err = a.m.both("look at a link", func() (err error) {
		said, err = a.model.Info()
		return err
	}, func() (err error) {
		if info, err = a.host.Info(); err == nil && (info.Attach != said.Attach || info.Ifindex != said.Ifindex) {
			a.m.differ("a link is %+v, in the model %+v", info, said)
		}
		return err
	})
	return info, err
}

// Pin implements kernel.Link.
func (a attached) Pin(name string) error {
	return a.m.both("pin "+name, func() error { return a.model.Pin(name) }, func() error { return a.host.Pin(name) })
}

// Unpin implements kernel.Link.
func (a attached) Unpin() error { return a.m.both("unpin a link", a.model.Unpin, a.host.Unpin) }

// Close implements kernel.Link.
func (a attached) Close() error {
	return a.m.both("close a link", a.model.Close, func() error {
		delete(a.m.open, a.host)
		return a.host.Close()
	})
}
