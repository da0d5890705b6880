package host

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Desired are the changes of the host that an edge needs while it runs.
type Desired struct {
	// NextHops are neighbours whose MAC address the kernel shall keep resolved.
	NextHops []NextHop
	// Promisc are the ifindexes of links that shall accept every frame.
	Promisc []int
	// ChecksumDevices are the UDP ports that shall have one of the kernel's tunnel
	// devices, which fills in outer UDP checksums.
	ChecksumDevices []uint16
	// GRODevices are the UDP ports whose tunnel packets the kernel shall put together (GRO)
	// before the data path sees them, which it does where a device of its own listens: one
	// like a checksummer's, where it can be had.
	GRODevices []uint16
	// GRODevice is the name of a veth pair behind whose far end the kernel puts
	// cut segments together again; "" for none.
	GRODevice string
	// Offloads are features of interfaces that shall be so.
	Offloads []Offload
}

// Ensure makes the host's changes be exactly want: what is missing is made, what
// is no longer wanted is undone. Hold(Holds{}) undoes everything. What was
// there without us is neither changed nor recorded.
func (h *Host) Ensure(want Desired) error {
	errs := []error{
		h.ensureNextHops(want.NextHops), h.ensurePromisc(want.Promisc), h.devices.ensureChecksumDevices(want.ChecksumDevices, want.GRODevices),
		h.devices.ensureGRODevice(want.GRODevice), h.ensureOffloads(want.Offloads),
	}
	if h.held.empty() {
		errs = append(errs, h.held.remove())
	}
	return errors.Join(errs...)
}

func (h *Host) ensureNextHops(want []NextHop) error {
	tables := make(map[int]map[NextHop]netlink.Neigh)
	table := func(ifindex int) (map[NextHop]netlink.Neigh, error) {
		if _, ok := tables[ifindex]; !ok {
			neighs, err := h.neighbours(ifindex)
			if err != nil {
				return nil, err
			}
			tables[ifindex] = neighs
		}
		return tables[ifindex], nil
	}
	var errs []error
	for _, held := range slices.Clone(h.held.NextHops) {
		if !slices.Contains(want, held.NextHop) {
			neighs, err := table(held.Ifindex)
			if err == nil {
				n, exists := neighs[held.NextHop]
				err = h.releaseNextHop(held, n, exists)
			}
			errs = append(errs, err)
		}
	}
	for _, hop := range want {
		neighs, err := table(hop.Ifindex)
		if err == nil {
			n, exists := neighs[hop]
			err = h.ensureNextHop(hop, n, exists)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ensureNextHop makes the kernel resolve hop and probe it from then on
// (NTF_EXT_MANAGED, Linux 5.16). An older kernel ignores that flag, so the
// entry is poked again at each call.
func (h *Host) ensureNextHop(hop NextHop, n netlink.Neigh, exists bool) error {
	if exists && (n.State&(unix.NUD_PERMANENT|unix.NUD_NOARP) != 0 || n.FlagsExt&netlink.NTF_EXT_MANAGED != 0) {
		return nil // an operator's entry, or kept resolved already
	}
	if err := h.held.addNextHop(heldNextHop{NextHop: hop, Created: !exists}); err != nil {
		return err
	}
	use := &netlink.Neigh{
		LinkIndex: hop.Ifindex, Family: family(hop.Addr), IP: hop.Addr.AsSlice(),
		Flags: netlink.NTF_USE, FlagsExt: netlink.NTF_EXT_MANAGED,
	}
	err := h.handle.NeighSet(use)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		use.FlagsExt = 0
		err = h.handle.NeighSet(use)
	}
	if err != nil && !gone(err) {
		return fmt.Errorf("resolve next hop %s on interface %d: %w", hop.Addr, hop.Ifindex, err)
	}
	return nil
}

// releaseNextHop deletes an entry that Hold made and takes the kernel's
// probing off one that it found.
func (h *Host) releaseNextHop(held heldNextHop, n netlink.Neigh, exists bool) error {
	neigh := &netlink.Neigh{LinkIndex: held.Ifindex, Family: family(held.Addr), IP: held.Addr.AsSlice()}
	var err error
	switch {
	case !exists || n.State&unix.NUD_PERMANENT != 0: // gone, or an operator's by now
	case held.Created:
		err = h.handle.NeighDel(neigh)
	case n.FlagsExt&netlink.NTF_EXT_MANAGED != 0:
		// NTF_USE keeps state and address, and leaving the other flag out clears it.
		neigh.Flags = netlink.NTF_USE
		err = h.handle.NeighSet(neigh)
	}
	if err != nil && !gone(err) {
		return fmt.Errorf("release next hop %s on interface %d: %w", held.Addr, held.Ifindex, err)
	}
	return h.held.dropNextHop(held.NextHop)
}

func (h *Host) ensurePromisc(want []int) error {
	var errs []error
	for _, held := range slices.Clone(h.held.Promisc) {
		if !slices.Contains(want, held.Ifindex) {
			errs = append(errs, h.releasePromisc(held))
		}
	}
	for _, ifindex := range want {
		errs = append(errs, h.raisePromisc(ifindex))
	}
	return errors.Join(errs...)
}

func (h *Host) raisePromisc(ifindex int) error {
	link, err := h.handle.LinkByIndex(ifindex)
	if gone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look up interface %d: %w", ifindex, err)
	}
	if link.Attrs().RawFlags&unix.IFF_PROMISC != 0 {
		return nil
	}
	if err := h.held.addPromisc(heldLink{Ifindex: ifindex, Interface: link.Attrs().Name}); err != nil {
		return err
	}
	if err := h.handle.SetPromiscOn(link); err != nil {
		return fmt.Errorf("set %s promiscuous: %w", link.Attrs().Name, err)
	}
	return nil
}

func (h *Host) releasePromisc(held heldLink) error {
	link, err := h.handle.LinkByIndex(held.Ifindex)
	switch {
	case gone(err):
	case err != nil:
		return fmt.Errorf("look up interface %d: %w", held.Ifindex, err)
	default:
		if err := h.handle.SetPromiscOff(link); err != nil && !gone(err) {
			return fmt.Errorf("set %s no longer promiscuous: %w", link.Attrs().Name, err)
		}
	}
	return h.held.dropPromisc(held.Ifindex)
}

// gone reports whether err says that the link or entry exists no more.
func gone(err error) bool {
	var notFound netlink.LinkNotFoundError
	return errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) ||
		errors.Is(err, unix.ENXIO) || errors.As(err, &notFound)
}
