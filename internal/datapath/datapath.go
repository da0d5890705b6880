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
	"io"
	"io/fs"
	"math"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/overlay"
)

const (
	// DefaultPinRoot is where edges pin their maps and links, a directory each.
	DefaultPinRoot = "/sys/fs/bpf/selvage"
	// MaxUDPPorts is how many UDP ports tunnels may arrive on.
	MaxUDPPorts = 8
	// abiVersion is ABI_VERSION of bpf/abi/abi.h.
	abiVersion = 9
)

// Datapath is the loaded programs of one edge.
type Datapath struct {
	cfg     Config
	dir     string
	kernel  kernel.Kernel
	lock    io.Closer // of dir
	objs    objects
	words   vocabulary
	links   map[hook]*attachment
	refused map[hook]refusedTransit // transit programs
	pins    pins                    // of other builds
	beaten  uint64                  // when the last epoch of the transit programs began
	pulsing sync.Mutex              // held while a pulse is changed: Steer runs beside others
	hosting sync.Mutex              // held while entries of hosts are replaced or removed: Age runs beside PutBGPMACs
	adopted bool
	newFDB  bool   // the FDB is empty, whatever cached decisions think it knows
	memory  []byte // of the map segments
	usages  []byte // of the map owner_usages
	fw      firewall
	nat     translation

	// What the maps hold, by the names that the model uses.
	vports         []bpfVport // by end id; 0 is never used
	segments       []bpfSegment
	routers        []bpfRouter
	hops           []bpfNexthop
	hopIDs         map[bpfNexthop]uint16 // of those that are taken
	groupRoutes    []int                 // by how many routes each group is used
	freeable       bool                  // some group or next hop may be used by nobody
	groups         []bpfNexthopGroup
	routes         map[bpfRouteKey]bpfRoute
	sets           map[string]uint32 // groups by their set of next hops
	members        map[membership]bool
	fresh          newOwners                        // of the last Apply
	limitedTables  [bpfLimitedCountCOUNT_MAX]uint32 // sizes
	names          names
	loopEdge       uint64                         // names this edge in loop probes
	loopTokens     map[uint32]uint64              // secrets of ports, by vport
	cut            map[string]bool                // ports that are part of loops
	publishedNames atomic.Pointer[hostEventNames] // for FollowHostEvents, which runs beside Apply
	edges          map[netip.Addr]netip.Addr      // remote's address → its first
}

// names gives the model's words for numbers in the maps.
type names struct {
	ports    map[uint32]string // end → port name
	segments map[uint32]string // segment → name
	routers  map[uint32]string // router → name
	segIDs   map[string]uint32
	routeIDs map[string]uint32 // router's name → router
	portIDs  map[string]uint32
	tepIDs   map[netip.Addr]uint32   // remote's first address → the end that stands for it
	pathIDs  map[overlay.Pair]uint32 // → end

	egresses  map[uint32]string // egress → name
	egressIDs map[string]uint32
	tagged    [2]map[uint32]uint32 // NameTag → router, egress

	incomplete bool // some objects of the tables have no number
}

// Open loads the programs and adopts the maps and links that a former process of
// the same name has pinned. Packets see the new programs only after Apply.
//
// Pins of older builds are adopted or removed, those of newer ones are left alone.
func Open(cfg Config) (*Datapath, error) { return OpenWith(cfg, kernel.Host()) }

// OpenWith does so on a kernel, or a model of one.
func OpenWith(cfg Config, k kernel.Kernel) (*Datapath, error) { return open(cfg, k, releases()) }

func open(cfg Config, k kernel.Kernel, older map[int]release) (*Datapath, error) {
	if len(cfg.TEPs) == 0 || len(cfg.TEPs) > overlay.MaxTEPs {
		return nil, fmt.Errorf("%d tunnel endpoints, not 1 … %d", len(cfg.TEPs), overlay.MaxTEPs)
	}
	if len(cfg.UDPPorts) > MaxUDPPorts {
		return nil, fmt.Errorf("%d UDP ports for tunnels, at most %d", len(cfg.UDPPorts), MaxUDPPorts)
	}
	if cfg.PinRoot == "" {
		cfg.PinRoot = DefaultPinRoot
	}
	vocab, err := vocabularyOf()
	if err != nil {
		return nil, err
	}
	d := &Datapath{
		cfg: cfg, kernel: k, dir: filepath.Join(cfg.PinRoot, cfg.Name), words: vocab, refused: map[hook]refusedTransit{}, pins: pins{releases: older},
	}
	if err := k.Pins.Mount(cfg.PinRoot); err != nil {
		return nil, err
	}
	for _, dir := range []string{d.mapDir(), d.linkDir()} {
		if err := k.Pins.MakeDir(dir); err != nil {
			return nil, fmt.Errorf("make the directory for pins: %w", err)
		}
	}
	if d.lock, err = k.Pins.Lock(d.dir); err != nil {
		return nil, err
	}
	if err := d.loadAndAdopt(); err != nil {
		return nil, errors.Join(err, d.lock.Close())
	}
	return d, nil
}

func (d *Datapath) loadAndAdopt() error {
	if err := d.claimNamespace(); err != nil {
		return err
	}
	if err := d.findOthers(); err != nil {
		return err
	}
	if err := d.load(); err != nil {
		return err
	}
	if err := d.adopt(); err != nil {
		return errors.Join(err, d.unmap(), d.objs.Close())
	}
	return nil
}

func (d *Datapath) load() error {
	spec, err := loadBpf()
	if err != nil {
		return err
	}
	for _, m := range spec.Maps {
		if !isData(m) {
			m.Pinning = ebpf.PinByName
		}
	}
	if err := d.keepNumbers(spec); err != nil {
		return err
	}
	if err := d.configure(spec); err != nil {
		return err
	}
	d.configureLimits(spec)
	d.loopEdge = d.kernel.Random()
	if err := spec.Variables[bpfVarLoopEdge].Set(d.loopEdge); err != nil {
		return fmt.Errorf("set %s: %w", bpfVarLoopEdge, err)
	}
	if err := d.dropIncompatible(spec); err != nil {
		return err
	}
	loaded, err := d.kernel.Loader.Load(spec, d.mapDir())
	if err != nil {
		return err
	}
	d.objs = assignObjects(loaded)
	d.trackConnections()
	if d.memory, err = d.objs.Segments.Mmap(); err != nil {
		return err
	}
	d.usages, err = d.objs.OwnerUsages.Mmap()
	return err
}

// unmap lets go of the memory of maps.
func (d *Datapath) unmap() error {
	var errs []error
	for _, memory := range []*[]byte{&d.memory, &d.usages} {
		if *memory != nil {
			errs = append(errs, d.kernel.Loader.Munmap(*memory))
		}
		*memory = nil
	}
	return errors.Join(errs...)
}

// isData reports whether m holds a program's constants: never shared, never pinned.
func isData(m *ebpf.MapSpec) bool { return len(m.Name) > 0 && m.Name[0] == '.' }

// configure sizes the maps and sets the constants of a spec.
func (d *Datapath) configure(spec *ebpf.CollectionSpec) error {
	cfg := d.cfg
	if cfg.FDB.Size > 0 {
		spec.Maps[bpfMapFdb].MaxEntries = cfg.FDB.Size
		spec.Maps[bpfMapNeighbours].MaxEntries = cfg.FDB.Size
	}
	if cfg.FlowCache.Size > 0 {
		spec.Maps[bpfMapFlows].MaxEntries = cfg.FlowCache.Size
	}
	configureTables(spec, cfg.Tables)
	cores, err := d.kernel.Loader.Cores()
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
	spec.Maps[bpfMapTransitCache].MaxEntries = uint32(cores) * slots
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
	if err := d.dropUnfinished(); err != nil {
		return err
	}
	for name, ms := range spec.Maps {
		if isData(ms) {
			continue
		}
		path := filepath.Join(d.mapDir(), name)
		m, err := d.kernel.Loader.PinnedMap(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("open the pinned map %s: %w", path, err)
		}
		err = m.Compatible(ms)
		if _, ok := tableCopies[name]; ok && errors.Is(err, ebpf.ErrMapIncompatible) {
			err = d.resize(ms, m)
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
		d.fw.strangers = true
		keep = d.cfg.Firewall != nil
	case bpfMapNatSessions:
		keep = d.cfg.Egress != nil
	}
	if !keep || m.MaxEntries() == 1 {
		return m.Unpin()
	}
	return d.setAside(name, m)
}

// Adopted reports whether a former process's data path was running.
func (d *Datapath) Adopted() bool { return d.adopted }

// Close lets go of the handles; what is pinned goes on forwarding.
func (d *Datapath) Close() error {
	errs := []error{d.fw.close(), d.nat.close(), d.unmap(), d.objs.Close()}
	for _, a := range d.links {
		errs = append(errs, a.close())
	}
	d.links = nil
	errs = append(errs, d.lock.Close())
	return errors.Join(errs...)
}

// Remove detaches the programs and removes every pin of this edge but those of newer builds.
func (d *Datapath) Remove() error {
	return errors.Join(d.detachAll(), d.fw.close(), d.nat.close(), d.unmap(), d.objs.Close(), d.removeOlder(), d.removeOwn(), d.lock.Close())
}
