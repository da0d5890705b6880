package datapath

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// Reader reads the tables of a data path that no process drives, by its pins. It changes nothing and takes no lock:
// where a process does drive it, that is not disturbed.
type Reader struct {
	d   *Datapath
	abi []int // of all tables that are pinned, in order
}

// ABIError is of pinned tables of another release, which this build would misread.
type ABIError struct {
	Dir   string
	Found []int // ABI versions, in order
}

// Error says which release can read them.
func (e ABIError) Error() string {
	if len(e.Found) == 0 {
		return e.Dir + " has no tables of a known release"
	}
	found := make([]string, len(e.Found))
	for i, abi := range e.Found {
		found[i] = strconv.Itoa(abi)
	}
	advice := "start the edge again with this release, which takes the data path over, or ask with the release that ran it"
	if e.Found[len(e.Found)-1] > abiVersion {
		advice = "ask with the newer release that ran the edge"
	}
	return fmt.Sprintf("%s has tables of ABI %s, this build reads ABI %d: %s", e.Dir, strings.Join(found, " and "), abiVersion, advice)
}

// OpenReader opens the tables of what cfg.PinRoot has of cfg.Name. Of the rest of cfg it uses what says how flows are
// read: FlowCache, FDB and Transit. It is fs.ErrNotExist where nothing is pinned, and an ABIError where the tables are
// of another release. Names are known after Recognise.
func OpenReader(cfg Config) (*Reader, error) { return openReader(cfg, kernel.HostForReading()) }

func openReader(cfg Config, k kernel.Kernel) (*Reader, error) {
	cfg.PinRoot = PinRoot(cfg.PinRoot)
	vocab, err := vocabularyOf()
	if err != nil {
		return nil, err
	}
	d := assemble(cfg, k, vocab, releases())
	r := &Reader{d: d}
	if r.abi, err = d.Pins.abis(); err != nil {
		return nil, fmt.Errorf("read the pins: %w", err)
	}
	if !slices.Contains(r.abi, abiVersion) {
		return nil, ABIError{Dir: d.Pins.dir, Found: r.abi}
	}
	d.prog.objs.Objects = &kernel.Objects{Maps: map[string]kernel.Map{}}
	if err := r.open(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// abis are the ABI versions of the tables that are pinned, in order.
func (pi *Pins) abis() (list []int, err error) {
	entries, err := pi.prog.kernel.Pins.List(pi.dir)
	for _, name := range entries {
		if abi, err := strconv.Atoi(strings.TrimPrefix(name, mapsPrefix)); err == nil && name == mapsPrefix+strconv.Itoa(abi) {
			list = append(list, abi)
		}
	}
	slices.Sort(list)
	return list, err
}

// open opens the maps that are read, and reads which numbers there are.
func (r *Reader) open() error {
	d := r.d
	spec, err := loadBpf()
	if err != nil {
		return err
	}
	components := []any{&d.numbers.maps, &d.Traffic.maps, &d.Hosts.maps, &d.Flows.maps, &d.Limits.maps, &d.Ports.maps, &d.Routes.maps, &d.Changes.maps}
	for _, name := range tagsOf(components...) {
		m, err := d.openLike(spec.Maps[name])
		if err != nil {
			return err
		}
		d.prog.objs.Maps[name] = m
	}
	assign(d.prog.objs.Objects, components...)
	if d.Limits.usages, err = d.Limits.maps.OwnerUsages.Mmap(); err != nil {
		return err
	}
	nu := d.numbers
	nu.routers = make([]bpfRouter, nu.maps.Routers.MaxEntries())
	return errors.Join(nu.read(), readArray(nu.maps.Routers, nu.routers))
}

// tagsOf are the names of the maps that assign gives to structs.
func tagsOf(into ...any) (names []string) {
	for _, fields := range into {
		t := reflect.TypeOf(fields).Elem()
		for i := range t.NumField() {
			names = append(names, t.Field(i).Tag.Get("ebpf"))
		}
	}
	return names
}

// openLike opens the pinned map of a spec. One of another layout is an error; its size is configured, but for those
// that have an entry for each word of this build.
func (d *Datapath) openLike(spec *ebpf.MapSpec) (kernel.Map, error) {
	path := filepath.Join(d.Pins.mapDir(), spec.Name)
	m, err := d.prog.kernel.Loader.PinnedMap(path)
	if err != nil {
		return nil, fmt.Errorf("open the pinned map %s: %w", path, err)
	}
	if spec.Name != bpfMapDrops && spec.Name != bpfMapEvents {
		spec.MaxEntries = m.MaxEntries()
	}
	if err := m.Compatible(spec); err != nil {
		return nil, errors.Join(fmt.Errorf("%s is of another build of ABI %d, ask with that: %w", path, abiVersion, err), m.Close())
	}
	return m, nil
}

// OtherABIs are those of tables of other releases that are pinned too: an upgrade or downgrade was not finished, and
// packets may go by them.
func (r *Reader) OtherABIs() []int {
	return slices.DeleteFunc(slices.Clone(r.abi), func(abi int) bool { return abi == abiVersion })
}

// IsElsewhere reports whether the data path is known to be of another network namespace than the caller's: its
// interfaces are then others than those of the same numbers here.
func (r *Reader) IsElsewhere() bool {
	notes, err := r.d.Pins.namespaceNotes()
	own := namespacePrefix + strconv.FormatUint(r.d.prog.kernel.Namespace(), 10)
	return err == nil && len(notes) > 0 && !slices.Contains(notes, own)
}

// Hook is a program that is attached to an interface.
type Hook struct {
	Role    string // see Hooked…
	Ifindex int
}

// Roles of hooks that people ask for.
const (
	HookedPort     = rolePort
	HookedUnderlay = roleUnderlay
	HookedXDP      = roleTransit
	HookedGeneric  = roleGeneric
)

// Hooks are those that are pinned.
func (r *Reader) Hooks() (list []Hook, err error) {
	entries, err := r.d.prog.kernel.Pins.List(r.d.Pins.linkDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the pinned links: %w", err)
	}
	for _, name := range entries {
		if h, ok := parseHook(name); ok && h.ifindex != 0 {
			list = append(list, Hook{h.role, h.ifindex})
		}
	}
	return list, nil
}

// FDB is as of Hosts.
func (r *Reader) FDB() ([]FDBEntry, error) { return r.d.Hosts.FDB() }

// Neighbours are as of Hosts.
func (r *Reader) Neighbours() ([]Neighbour, error) { return r.d.Hosts.Neighbours() }

// Flows are as of Flows.
func (r *Reader) Flows() ([]Flow, error) { return r.d.Flows.Flows() }

// Stats are as of Flows.
func (r *Reader) Stats() (Stats, error) { return r.d.Flows.Stats() }

// Drops are as of Traffic.
func (r *Reader) Drops() ([]Drop, error) { return r.d.Traffic.Drops() }

// OwnerDrops are as of Traffic.
func (r *Reader) OwnerDrops(kind OwnerKind) ([]OwnerDrop, error) { return r.d.Traffic.OwnerDrops(kind) }

// LimitUsages are as of Limits.
func (r *Reader) LimitUsages() ([]LimitUsage, error) { return r.d.Limits.LimitUsages() }

// Close lets go of the tables.
func (r *Reader) Close() error { return errors.Join(r.d.unmap(), r.d.prog.objs.Close()) }
