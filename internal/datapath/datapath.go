// Package datapath loads the edge's BPF programs, keeps their maps at what is
// desired and reads what they have learned.
//
// Its invariant: the pins are the data path. Closing the handles, or killing the
// process, changes nothing that a packet can see; only Remove ends it. Nothing
// here decides what ought to be: that is internal/reconcile.
package datapath

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/overlay"
)

const (
	// DefaultPinRoot is where edges pin their maps and links, a directory each.
	DefaultPinRoot = "/sys/fs/bpf/selvage"
	// MaxUDPPorts is how many UDP ports tunnels may arrive on.
	MaxUDPPorts = 8
	// abiVersion is ABI_VERSION of bpf/abi/abi.h.
	abiVersion = 8
)

// Datapath is the loaded programs of one edge.
type Datapath struct {
	cfg     Config
	dir     string
	lock    *os.File // of dir
	objs    bpfObjects
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
func Open(cfg Config) (*Datapath, error) { return open(cfg, releases()) }

func open(cfg Config, older map[int]release) (*Datapath, error) {
	if len(cfg.TEPs) == 0 || len(cfg.TEPs) > overlay.MaxTEPs {
		return nil, fmt.Errorf("%d tunnel endpoints, not 1 … %d", len(cfg.TEPs), overlay.MaxTEPs)
	}
	if len(cfg.UDPPorts) > MaxUDPPorts {
		return nil, fmt.Errorf("%d UDP ports for tunnels, at most %d", len(cfg.UDPPorts), MaxUDPPorts)
	}
	if cfg.PinRoot == "" {
		cfg.PinRoot = DefaultPinRoot
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("raise the memory lock limit for BPF maps: %w", err)
	}
	vocab, err := vocabularyOf()
	if err != nil {
		return nil, err
	}
	d := &Datapath{cfg: cfg, dir: filepath.Join(cfg.PinRoot, cfg.Name), words: vocab, refused: map[hook]refusedTransit{}, pins: pins{releases: older}}
	if err := mountBPF(cfg.PinRoot); err != nil {
		return nil, err
	}
	for _, dir := range []string{d.mapDir(), d.linkDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the directory for pins: %w", err)
		}
	}
	if d.lock, err = lockDir(d.dir); err != nil {
		return nil, err
	}
	if err := d.loadAndAdopt(); err != nil {
		return nil, errors.Join(err, d.lock.Close())
	}
	return d, nil
}

func (d *Datapath) loadAndAdopt() error {
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

// lockDir takes the right to drive the data path that is pinned in dir, which lasts until the file
// is closed or the process ends. The lock of a runtime directory does not say that: two processes
// may have one each, and the same pins.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("lock the pins: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errors.New("another process drives this data path: end that, or give this edge another name or --pin-root")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// mountBPF makes sure that pins survive the process: the directory must be on a
// BPF file system.
func mountBPF(root string) error {
	const mountpoint = "/sys/fs/bpf"
	var st unix.Statfs_t
	if err := unix.Statfs(mountpoint, &st); err != nil {
		return fmt.Errorf("look for the BPF file system: %w", err)
	}
	if st.Type != unix.BPF_FS_MAGIC {
		if err := unix.Mount("bpf", mountpoint, "bpf", 0, "mode=0700"); err != nil {
			return fmt.Errorf("mount the BPF file system at %s: %w (run as root in the host's mount namespace)", mountpoint, err)
		}
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return fmt.Errorf("make the directory for pins: %w", err)
	}
	if err := unix.Statfs(root, &st); err != nil {
		return fmt.Errorf("look at %s: %w", root, err)
	}
	if st.Type != unix.BPF_FS_MAGIC {
		return fmt.Errorf("%s is not on a BPF file system: pins there would not survive", root)
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
	if err := configure(spec, d.cfg); err != nil {
		return err
	}
	d.configureLimits(spec)
	d.loopEdge = randomNumber()
	if err := spec.Variables[bpfVarLoopEdge].Set(d.loopEdge); err != nil {
		return fmt.Errorf("set %s: %w", bpfVarLoopEdge, err)
	}
	opts := &ebpf.CollectionOptions{Maps: ebpf.MapOptions{PinPath: d.mapDir()}}
	if err := d.dropIncompatible(spec); err != nil {
		return err
	}
	if err := spec.LoadAndAssign(&d.objs, opts); err != nil {
		return loadError(err)
	}
	d.trackConnections()
	if d.memory, err = mapMemory(d.objs.Segments, segmentStride); err != nil {
		return err
	}
	d.usages, err = mapMemory(d.objs.OwnerUsages, usageStride)
	return err
}

// unmap lets go of the memory of maps.
func (d *Datapath) unmap() error { return errors.Join(unmapMemory(&d.memory), unmapMemory(&d.usages)) }

func loadError(err error) error {
	var verr *ebpf.VerifierError
	if errors.As(err, &verr) {
		return fmt.Errorf("the kernel refused a program: %w\n%s", err, verifierTail(verr))
	}
	return fmt.Errorf("load the programs: %w", err)
}

// verifierTail is the end of the verifier's log, where the refusal stands.
func verifierTail(v *ebpf.VerifierError) string {
	lines := v.Log
	if len(lines) > 20 {
		lines = lines[len(lines)-20:]
	}
	out := ""
	for _, l := range lines {
		out += l + "\n"
	}
	return out
}

// isData reports whether m holds a program's constants: never shared, never pinned.
func isData(m *ebpf.MapSpec) bool { return len(m.Name) > 0 && m.Name[0] == '.' }

func configure(spec *ebpf.CollectionSpec, cfg Config) error {
	if cfg.FDB.Size > 0 {
		spec.Maps[bpfMapFdb].MaxEntries = cfg.FDB.Size
		spec.Maps[bpfMapNeighbours].MaxEntries = cfg.FDB.Size
	}
	if cfg.FlowCache.Size > 0 {
		spec.Maps[bpfMapFlows].MaxEntries = cfg.FlowCache.Size
	}
	cores, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("count the cores: %w", err)
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
	for name, ms := range spec.Maps {
		if isData(ms) {
			continue
		}
		path := filepath.Join(d.mapDir(), name)
		m, err := ebpf.LoadPinnedMap(path, nil)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("open the pinned map %s: %w", path, err)
		}
		err = ms.Compatible(m)
		if errors.Is(err, ebpf.ErrMapIncompatible) {
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
func (d *Datapath) replace(name string, m *ebpf.Map) error {
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
