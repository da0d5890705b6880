// Package datapath loads the edge's BPF programs, keeps their maps at what is
// desired and reads what they have learned.
//
// Its invariant: the pins are the data path. Closing the handles, or killing the
// process, changes nothing that a packet can see; only Remove ends it. Nothing
// here decides what ought to be: that is internal/plan. What it asks of the operating system goes by
// the package kernel.
package datapath

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/overlay"
)

const (
	// MaxUDPPorts is how many UDP ports tunnels may arrive on.
	MaxUDPPorts = 8
	// abiVersion is ABI_VERSION of bpf/abi/abi.h.
	abiVersion = 9
)

// Datapath is the loaded programs of one edge, in components by subject. Each component has the maps
// and the state that it alone changes; a later one uses earlier ones.
type Datapath struct {
	lock   *pinLock
	before *Datapath // from which the first Apply takes over; nil: from none
	newFDB bool      // the FDB is empty, whatever cached decisions think it knows

	prog           *programs
	numbers        *numbers
	Changes        *Changes
	Limits         *Limits
	Traffic        *Traffic
	assigner       *assigner
	Hosts          *Hosts
	HostEvents     *HostEvents
	Routes         *Routes
	Paths          *Paths
	Pins           *Pins
	Links          *Links
	Firewall       *Firewall
	NATSessions    *NATSessions
	egressPolicies *egressPolicies
	Egress         *Egress
	Ports          *Ports
	Flows          *Flows
	Tracer         *Tracer
	Monitors       *Monitors
	carrier        *carrier
}

// assemble makes the components of a data path that is not loaded yet.
func assemble(cfg Config, k kernel.Kernel, words vocabulary, older map[int]release) *Datapath {
	d := &Datapath{prog: &programs{cfg: cfg, kernel: k, words: words}}
	d.numbers = &numbers{prog: d.prog, names: newNames()}
	d.Changes = &Changes{prog: d.prog, numbers: d.numbers}
	d.Limits = &Limits{prog: d.prog, numbers: d.numbers}
	d.Traffic = &Traffic{prog: d.prog, numbers: d.numbers}
	d.assigner = &assigner{prog: d.prog, numbers: d.numbers, limits: d.Limits, traffic: d.Traffic}
	d.Hosts = &Hosts{prog: d.prog, numbers: d.numbers, changes: d.Changes, limits: d.Limits}
	d.HostEvents = &HostEvents{prog: d.prog, numbers: d.numbers, traffic: d.Traffic, hosts: d.Hosts}
	d.Routes = &Routes{prog: d.prog, numbers: d.numbers, changes: d.Changes}
	d.Paths = &Paths{prog: d.prog, numbers: d.numbers, changes: d.Changes, traffic: d.Traffic}
	d.Pins = &Pins{prog: d.prog, dir: filepath.Join(cfg.PinRoot, cfg.Name), releases: older}
	d.Links = &Links{prog: d.prog, pins: d.Pins, refused: map[hook]refusedTransit{}}
	d.Firewall = &Firewall{prog: d.prog, numbers: d.numbers, links: d.Links, limits: d.Limits}
	d.NATSessions = &NATSessions{prog: d.prog, numbers: d.numbers}
	d.egressPolicies = &egressPolicies{prog: d.prog, numbers: d.numbers}
	d.Egress = &Egress{
		prog: d.prog, numbers: d.numbers, changes: d.Changes, routes: d.Routes, sessions: d.NATSessions, policies: d.egressPolicies,
	}
	d.Ports = &Ports{prog: d.prog, numbers: d.numbers, changes: d.Changes, firewall: d.Firewall, egress: d.Egress, paths: d.Paths}
	d.Flows = &Flows{prog: d.prog, numbers: d.numbers, changes: d.Changes, limits: d.Limits, traffic: d.Traffic, hosts: d.Hosts, routes: d.Routes}
	d.Tracer = &Tracer{prog: d.prog, numbers: d.numbers, firewall: d.Firewall, routes: d.Routes}
	d.Monitors = &Monitors{prog: d.prog, numbers: d.numbers, firewall: d.Firewall, routes: d.Routes}
	d.carrier = &carrier{prog: d.prog, pins: d.Pins, firewall: d.Firewall, sessions: d.NATSessions}
	return d
}

// Open loads the programs and adopts the maps and links that a former process of
// the same name has pinned. Packets see the new programs only after Apply.
//
// Pins of older builds are adopted or removed, those of newer ones are left alone.
// On a kernel that lacks what it needs it is an UnsupportedKernelError, and nothing is made.
func Open(cfg Config) (*Datapath, error) {
	if err := checkKernel(); err != nil {
		return nil, err
	}
	return OpenWith(cfg, kernel.Host())
}

// OpenWith does so on a kernel, or a model of one.
func OpenWith(cfg Config, k kernel.Kernel) (*Datapath, error) { return open(cfg, k, releases()) }

func open(cfg Config, k kernel.Kernel, older map[int]release) (*Datapath, error) {
	if len(cfg.TEPs) == 0 || len(cfg.TEPs) > overlay.MaxTEPs {
		return nil, fmt.Errorf("%d tunnel endpoints, not 1 … %d", len(cfg.TEPs), overlay.MaxTEPs)
	}
	if len(cfg.UDPPorts) > MaxUDPPorts {
		return nil, fmt.Errorf("%d UDP ports for tunnels, at most %d", len(cfg.UDPPorts), MaxUDPPorts)
	}
	cfg.PinRoot = PinRoot(cfg.PinRoot)
	vocab, err := vocabularyOf()
	if err != nil {
		return nil, err
	}
	d := assemble(cfg, k, vocab, older)
	d.before, d.prog.cfg.Beside = cfg.Beside, nil
	if err := k.Pins.Mount(cfg.PinRoot); err != nil {
		return nil, err
	}
	for _, dir := range []string{d.Pins.mapDir(), d.Pins.linkDir()} {
		if err := k.Pins.MakeDir(dir); err != nil {
			return nil, fmt.Errorf("make the directory for pins: %w", err)
		}
	}
	if d.lock, err = lockPins(k, d.Pins.dir, cfg.Beside); err != nil {
		return nil, err
	}
	if cfg.Beside != nil {
		d.prog.filling.begin(&cfg.Beside.prog.filling)
	}
	if err := d.loadAndAdopt(); err != nil {
		return nil, errors.Join(err, d.lock.Close())
	}
	return d, nil
}

func (d *Datapath) loadAndAdopt() error {
	if err := d.Pins.claimNamespace(); err != nil {
		return err
	}
	if err := d.Pins.findOthers(); err != nil {
		return err
	}
	if err := d.load(); err != nil {
		return err
	}
	if err := d.adopt(); err != nil {
		return errors.Join(err, d.unmap(), d.prog.objs.Close())
	}
	return nil
}

func (d *Datapath) load() error {
	spec, err := loadBpf()
	if err != nil {
		return err
	}
	nameSections(spec)
	for _, m := range spec.Maps {
		if !isData(m) {
			m.Pinning = ebpf.PinByName
		}
	}
	if err := d.Pins.keepNumbers(spec); err != nil {
		return err
	}
	if err := d.prog.configure(spec); err != nil {
		return err
	}
	d.Limits.configureLimits(spec)
	d.HostEvents.loopEdge = d.prog.kernel.Random()
	if err := spec.Variables[bpfVarLoopEdge].Set(d.HostEvents.loopEdge); err != nil {
		return fmt.Errorf("set %s: %w", bpfVarLoopEdge, err)
	}
	if err := d.dropIncompatible(spec); err != nil {
		return err
	}
	loaded, err := d.prog.kernel.Loader.Load(spec, d.Pins.mapDir())
	if err != nil {
		return err
	}
	d.prog.objs.Objects = loaded
	assign(loaded, &d.prog.objs, &d.numbers.maps, &d.Changes.maps, &d.Limits.maps, &d.Traffic.maps, &d.Hosts.maps, &d.HostEvents.maps,
		&d.Routes.maps, &d.Paths.maps, &d.Ports.maps, &d.Links.maps, &d.Firewall.maps, &d.NATSessions.maps, &d.Egress.maps, &d.Flows.maps,
		&d.Tracer.maps, &d.Monitors.maps)
	d.trackConnections()
	if err := d.Monitors.clear(); err != nil {
		return err
	}
	if err := d.Flows.keepSecret(); err != nil {
		return err
	}
	if d.Changes.memory, err = d.numbers.maps.Segments.Mmap(); err != nil {
		return err
	}
	d.Limits.usages, err = d.Limits.maps.OwnerUsages.Mmap()
	return err
}

// unmap lets go of the memory of maps.
func (d *Datapath) unmap() error {
	var errs []error
	for _, memory := range []*[]byte{&d.Changes.memory, &d.Limits.usages} {
		if *memory != nil {
			errs = append(errs, d.prog.kernel.Loader.Munmap(*memory))
		}
		*memory = nil
	}
	return errors.Join(errs...)
}

// isData reports whether m holds a program's constants: never shared, never pinned.
func isData(m *ebpf.MapSpec) bool { return len(m.Name) > 0 && m.Name[0] == '.' }

// mapMonitors is the map of monitors, and monitorSection the section of object files that becomes it.
const mapMonitors, monitorSection = "monitors", ".data.monitors"

// nameSections has the map of monitors, which object files have as a section so that programs read it without a look-up, be
// a map as the others: pinned by its name, and the same for all programs.
func nameSections(spec *ebpf.CollectionSpec) {
	m := spec.Maps[monitorSection]
	if m == nil {
		return
	}
	m.Name, m.Contents = mapMonitors, nil // what is pinned keeps what it holds
	spec.Maps[m.Name] = m
	delete(spec.Maps, monitorSection)
	for _, p := range spec.Programs {
		for i, ins := range p.Instructions {
			if ins.Reference() == monitorSection {
				p.Instructions[i] = ins.WithReference(m.Name)
			}
		}
	}
}

// loadUpon loads all of a spec upon those of maps that it has.
func (pr *programs) loadUpon(spec *ebpf.CollectionSpec, maps map[string]kernel.Map) (*kernel.Objects, error) {
	nameSections(spec)
	return pr.kernel.Loader.LoadUpon(spec, maps)
}

// configure sizes the maps and sets the constants of a spec.
func (pr *programs) configure(spec *ebpf.CollectionSpec) error {
	cfg := pr.cfg
	if cfg.FDB.Size > 0 {
		spec.Maps[bpfMapFdb].MaxEntries = cfg.FDB.Size
		spec.Maps[bpfMapNeighbours].MaxEntries = cfg.FDB.Size
	}
	if cfg.FlowCache.Size > 0 {
		spec.Maps[bpfMapFlows].MaxEntries = cfg.FlowCache.Size
	}
	configureTables(spec, cfg.Tables)
	cores, err := pr.kernel.Loader.Cores()
	if err != nil {
		return err
	}
	if err := configureFirewall(spec, cfg.Firewall); err != nil {
		return err
	}
	if err := configureEgress(spec, cfg.Egress); err != nil {
		return err
	}
	slots := transitSlots(cfg, spec.Maps[bpfMapFlows].MaxEntries, uint32(cores))
	actions := transitActions(slots)
	spec.Maps[bpfMapTransitCache].MaxEntries = uint32(cores) * slots
	spec.Maps[bpfMapTransitActions].MaxEntries = uint32(cores) * actions
	var teps [overlay.MaxTEPs]bpfAddr
	for i, addr := range cfg.TEPs {
		teps[i].W = wireAddr(addr)
	}
	var ports [MaxUDPPorts]uint16
	var encaps [MaxUDPPorts]uint8
	for i, p := range cfg.UDPPorts {
		ports[i], encaps[i] = wire16(p.Port), uint8(encapsulations[p.Encapsulation])
	}
	for name, value := range map[string]any{
		bpfVarTepAddrs:     teps,
		bpfVarUdpPorts:     ports,
		bpfVarUdpEncaps:    encaps,
		bpfVarProbeMac:     cfg.ProbeMAC,
		bpfVarNvgre:        cfg.NVGRE,
		bpfVarFlowCache:    cfg.FlowCache.Enabled,
		bpfVarRevalidateNs: revalidateAfter(cfg.FDB),
		bpfVarTransitSlots: slots,

		bpfVarTransitActionsMax: actions,

		bpfVarMacMoves:        uint32(cfg.FDB.Duplicates.Moves),
		bpfVarMacMovesWithinS: uint32(cfg.FDB.Duplicates.Within.Seconds()),
		bpfVarMacFreezeS:      uint32(math.Ceil(cfg.FDB.Duplicates.Freeze.Seconds())),
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return configureTiming(spec, cfg.Timing)
}

// revalidateAfter is how old a cached decision may grow, in ns. Taking it again
// is what keeps the source's FDB entry from ageing, so it stays well below that.
func revalidateAfter(fdb overlay.FDB) uint64 {
	const most = 10e9
	if quarter := uint64(fdb.Ageing.Nanoseconds() / 4); quarter > 0 && quarter < most {
		return quarter
	}
	return most
}

// dropIncompatible unpins maps that differ from what the configuration asks for,
// so that new ones take their place; running programs keep the old ones.
func (d *Datapath) dropIncompatible(spec *ebpf.CollectionSpec) error {
	if err := d.Pins.dropUnfinished(); err != nil {
		return err
	}
	for name, ms := range spec.Maps {
		if isData(ms) {
			continue
		}
		path := filepath.Join(d.Pins.mapDir(), name)
		m, err := d.prog.kernel.Loader.PinnedMap(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("open the pinned map %s: %w", path, err)
		}
		err = m.Compatible(ms)
		if _, ok := tableCopies[name]; ok && errors.Is(err, ebpf.ErrMapIncompatible) {
			err = d.Pins.resize(ms, m)
		} else if errors.Is(err, ebpf.ErrMapIncompatible) {
			err = d.replace(name, m)
			d.newFDB = d.newFDB || name == bpfMapFdb
		}
		if err := errors.Join(err, m.Close()); err != nil {
			return fmt.Errorf("replace the pinned map %s: %w", path, err)
		}
	}
	return nil
}

// replace has a new map take the name of m. Connections and sessions stay at hand, to be
// carried over; returns are made again from their sessions.
func (d *Datapath) replace(name string, m kernel.PinnedMap) error {
	keep := false
	switch name {
	case bpfMapCtEstablished, bpfMapCtHalfOpen:
		d.Firewall.strangers = true
		keep = d.prog.cfg.Firewall != nil
	case bpfMapNatSessions:
		keep = d.prog.cfg.Egress != nil
	}
	if !keep || m.MaxEntries() == 1 {
		return m.Unpin()
	}
	return d.carrier.setAside(name, m)
}

// Adopted reports whether a former process's data path was running.
func (d *Datapath) Adopted() bool { return d.Links.adopted }

// Close lets go of the handles; what is pinned goes on forwarding.
func (d *Datapath) Close() error {
	errs := []error{d.HostEvents.wire.close(), d.Firewall.close(), d.NATSessions.closeSessions(), d.unmap(), d.prog.objs.Close()}
	for _, a := range d.Links.links {
		errs = append(errs, a.close())
	}
	d.Links.links = nil
	errs = append(errs, d.lock.Close())
	return errors.Join(errs...)
}

// Remove detaches the programs and removes every pin of this edge but those of newer builds.
func (d *Datapath) Remove() error {
	return errors.Join(d.Links.detachAll(), d.HostEvents.wire.close(), d.Firewall.close(), d.NATSessions.closeSessions(), d.unmap(), d.prog.objs.Close(),
		d.Pins.removeOlder(), d.Pins.removeOwn(), d.lock.Close())
}
