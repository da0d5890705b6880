package datapath

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// release is what builds of one ABI version pinned, those of all its commits together.
type release struct{ roles, maps []string }

// releases are those of the ABI versions before this one. Pins that are listed here are
// adopted or removed; what neither they nor this build have is of a newer build, or of
// somebody else, and is left alone.
func releases() map[int]release {
	split := strings.Fields
	first := release{split("port underlay coalescer"), split("drops ends events fdb flows members ports remotes segments traffic vnis")}
	second := release{first.roles, split(`allowed_addrs allowed_macs buckets current drops ends events fdb flows groups hops
		known_options locals members moves neighbours ports remotes routers routes scratch segments teps trace traffic vnis`)}
	third := release{slices.Concat(second.roles, split("transit transitgeneric notsent notredirected")),
		slices.Concat(second.maps, split("exits exits_generic pulses shortcut_tables shortcuts spreads takers"))}
	fourth := release{third.roles, slices.Concat(third.maps, split(`connections contests fragments half_open half_opens hearings
		log_buckets logs policy rules stamped stamps former_connections former_half_open`))}
	fifth := release{fourth.roles, slices.Concat(fourth.maps, split(`bindings egresses forwards host_counts nat_fragments news pool
		returns former_bindings`))}
	sixth := release{fifth.roles, slices.Concat(fifth.maps, split("arrivals arrival_buckets"))}
	// All names changed.
	seventh := release{sixth.roles, split(`allowed_addrs allowed_macs classify_states ct_established ct_half_open ct_works current drops
		egress_policies events fdb flows fragments fw_scratches global_counters half_open_counts host_event_buckets host_events icmp_buckets
		known_options local_addrs log_buckets logs members nat_events nat_fragments nat_host_counts nat_reverse nat_sessions nat_works
		neighbours nexthop_groups nexthops path_groups policy pool port_forwards ports remotes routers routes rules scratch segments
		stamped stamps teps trace traffic transit_cache transit_tables tx_devmap tx_devmap_generic vnis vports xdp_interfaces
		former_ct_established former_ct_half_open former_nat_sessions`)}
	eighth := release{seventh.roles, split(`allowed_addrs allowed_macs classify_states ct_closed ct_established ct_half_open ct_works current
		drops egress_policies events fdb flows fragment_works fragments fw_scratches global_counters half_open_counts host_event_buckets host_events
		host_works icmp_buckets known_options limit_entries limit_largest limit_works local_addrs log_buckets logs members nat_events nat_fragments
		nat_host_counts nat_inbound nat_over nat_reverse nat_sessions nat_unanswered nat_works neighbour_requests neighbours nexthop_groups nexthops
		owner_drops owner_limits owner_usages path_groups path_reports policy pool port_forwards ports remotes routers routes rules scratch segments
		stamped stamps teps trace traffic transit_cache transit_tables tx_devmap tx_devmap_generic vnis vports xdp_interfaces
		former_ct_established former_ct_half_open former_nat_sessions`)}
	return map[int]release{1: first, 2: second, 3: third, 4: fourth, 5: fifth, 6: sixth, 7: seventh, 8: eighth}
}

// Pins are those below the edge's directory, above all those that are not this build's.
type Pins struct {
	prog     *programs
	dir      string
	releases map[int]release
	older    []int         // ABI versions whose maps are there: the attached programs may be using them
	newer    []newerPin    // what is left alone
	taken    map[hook]bool // hooks whose pin is among them
	done     []string      // what was done with older ones, for the log
}

// newerPin is a pin that this build does not know. It holds no handle, so that removing the
// pin ends what it stands for.
type newerPin struct {
	path    string
	what    string
	link    link.ID // 0: no link
	ifindex int
	attach  ebpf.AttachType // of a link to an interface
}

const mapsPrefix = "maps-"

func (pi *Pins) linkDir() string { return filepath.Join(pi.dir, "links") }

// mapDir carries the ABI version: maps of another layout are never adopted.
func (pi *Pins) mapDir() string { return pi.mapDirOf(abiVersion) }

func (pi *Pins) mapDirOf(abi int) string {
	return filepath.Join(pi.dir, mapsPrefix+strconv.Itoa(abi))
}

// OlderPins says what was done with pins of former processes since it was asked last.
func (ln *Links) OlderPins() []string {
	done := ln.pins.done
	ln.pins.done = nil
	return done
}

func (pi *Pins) did(format string, args ...any) {
	pi.done = append(pi.done, fmt.Sprintf(format, args...))
}

// findOthers finds the directories that are not this build's.
func (pi *Pins) findOthers() error {
	pi.older, pi.newer, pi.taken = nil, nil, map[hook]bool{}
	entries, err := pi.prog.kernel.Pins.List(pi.dir)
	if err != nil {
		return fmt.Errorf("list the pins: %w", err)
	}
	for _, name := range entries {
		path := filepath.Join(pi.dir, name)
		abi, err := strconv.Atoi(strings.TrimPrefix(name, mapsPrefix))
		isMaps := err == nil && path == pi.mapDirOf(abi)
		_, known := pi.releases[abi]
		switch {
		case path == pi.linkDir(), path == pi.mapDir(), strings.HasPrefix(name, namespacePrefix):
		case isMaps && known:
			pi.older = append(pi.older, abi)
		case isMaps:
			pi.newer = append(pi.newer, newerPin{path: path, what: fmt.Sprintf("maps of ABI %d, this build has %d", abi, abiVersion)})
		default:
			pi.newer = append(pi.newer, lookAt(pi.prog.kernel.Linker, path))
		}
	}
	return nil
}

// removeOlder removes the maps of older builds, when the programs have been replaced.
func (pi *Pins) removeOlder() error {
	for _, abi := range pi.older {
		dir := pi.mapDirOf(abi)
		removed := 0
		for _, name := range pi.releases[abi].maps {
			err := pi.prog.kernel.Pins.Remove(filepath.Join(dir, name))
			if err == nil {
				removed++
			} else if !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove the maps of ABI %d: %w", abi, err)
			}
		}
		left, err := pi.prog.kernel.Pins.List(dir)
		if err != nil {
			return fmt.Errorf("remove the maps of ABI %d: %w", abi, err)
		}
		if len(left) > 0 {
			pi.newer = append(pi.newer, newerPin{path: dir, what: fmt.Sprintf("%s and %d more pins that no known build of ABI %d made",
				left[0], len(left)-1, abi)})
		} else if err := pi.prog.kernel.Pins.Remove(dir); err != nil {
			return fmt.Errorf("remove the maps of ABI %d: %w", abi, err)
		}
		pi.did("removed %d maps of ABI %d from %s: this build has ABI %d", removed, abi, dir, abiVersion)
	}
	pi.older = nil
	return nil
}

// removeOwn removes the maps of this build, and the directories when nothing is left in them.
func (pi *Pins) removeOwn() error {
	if err := pi.prog.kernel.Pins.RemoveAll(pi.mapDir()); err != nil {
		return fmt.Errorf("remove the maps: %w", err)
	}
	if err := pi.forgetNamespace(); err != nil {
		return fmt.Errorf("remove the pins: %w", err)
	}
	for _, dir := range []string{pi.linkDir(), pi.dir} {
		err := pi.prog.kernel.Pins.Remove(dir)
		if errors.Is(err, unix.ENOTEMPTY) && len(pi.newer) > 0 {
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the pins: %w", err)
		}
	}
	return nil
}

// isOutdated reports whether links of the role were made by an older build, and no longer are.
func (pi *Pins) isOutdated(role string) (abi int, ok bool) {
	for v, r := range pi.releases {
		if slices.Contains(r.roles, role) && v > abi {
			abi = v
		}
	}
	return abi, abi > 0 && !slices.Contains(roles, role)
}

// lookAt looks at a pin of another build.
func lookAt(linker kernel.Linker, path string) newerPin {
	pin := newerPin{path: path, what: "a pin that this build does not know"}
	l, err := linker.PinnedLink(path)
	if err != nil { // a directory, a map or a program
		return pin
	}
	defer l.Close()
	pin.what = "a link that this build does not know"
	info, err := l.Info()
	if err != nil {
		return pin
	}
	pin.link = info.ID
	if info.IsTCX() || info.IsXDP() {
		pin.ifindex, pin.attach = info.Ifindex, info.Attach
	}
	return pin
}

// leave notes a link of a newer build.
func (pi *Pins) leave(path string) {
	pi.newer = append(pi.newer, lookAt(pi.prog.kernel.Linker, path))
}

// lookNewer forgets what was removed meanwhile.
func (pi *Pins) lookNewer() {
	pi.newer = slices.DeleteFunc(pi.newer, func(pin newerPin) bool {
		_, err := pi.prog.kernel.Pins.IsDir(pin.path)
		return errors.Is(err, fs.ErrNotExist)
	})
	for h := range pi.taken {
		if _, err := pi.prog.kernel.Pins.IsDir(filepath.Join(pi.linkDir(), h.String())); errors.Is(err, fs.ErrNotExist) {
			delete(pi.taken, h)
		}
	}
}

// NewerPins says which pins of newer builds were left alone, what they mean for packets and
// what to do. It must be called in the network namespace.
func (ln *Links) NewerPins() []string {
	var list []string
	for _, pin := range ln.pins.newer {
		rm := "rm "
		if isDir, err := ln.prog.kernel.Pins.IsDir(pin.path); err == nil && isDir {
			rm = "rm -r "
		}
		list = append(list, fmt.Sprintf("%s is of a newer release and left as it is (%s): %s; start that release again, or remove it: %s%s",
			pin.path, pin.what, ln.effect(pin), rm, pin.path))
	}
	return list
}

// effect is what a pin of a newer build means for packets.
func (ln *Links) effect(pin newerPin) string {
	if pin.attach == 0 {
		return "it holds memory, and no process updates it"
	}
	name := "interface " + strconv.Itoa(pin.ifindex)
	if dev, err := net.InterfaceByIndex(pin.ifindex); err == nil {
		name = dev.Name
	}
	switch {
	case pin.ifindex == 0:
		return "its interface is gone"
	case pin.attach == ebpf.AttachXDP:
		return "its XDP program on " + name + " has packets before this edge, by tables that no process updates"
	case pin.attach != ebpf.AttachTCXIngress:
		return "its program has packets that leave by " + name + ", after this edge"
	}
	for h, a := range ln.links {
		if h.ifindex == pin.ifindex && h.isTCX() && a.current {
			return "its program on " + name + " comes after this edge's and has only what that leaves to the host"
		}
	}
	return "its program on " + name + " goes on alone, by tables that no process updates"
}

// newerAhead is the first link of a newer build that comes before ours on a hook of tcx, if
// there is one. Without ours (nil) all do.
func (pi *Pins) newerAhead(h hook, ours *attachment) (first link.ID, ahead bool, err error) {
	var newer []link.ID
	for _, pin := range pi.newer {
		if h.isTCX() && pin.ifindex == h.ifindex && pin.attach == ebpf.AttachTCXIngress {
			newer = append(newer, pin.link)
		}
	}
	if len(newer) == 0 {
		return 0, false, nil
	}
	found, err := pi.prog.kernel.Linker.Attached(h.ifindex)
	if err != nil {
		return 0, false, fmt.Errorf("list the programs on %s: %w", h, err)
	}
	for _, id := range found {
		if id == ours.id() {
			return 0, false, nil
		}
		if slices.Contains(newer, id) {
			return id, true, nil
		}
	}
	return 0, false, nil
}
