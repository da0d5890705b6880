// Package host is what the operating system says about links, addresses,
// routes and neighbours, and the few things that an edge asks it to change.
//
// Its one invariant: what Hold changed is recorded before it is changed, and
// undone when it is no longer held, also by a later process. What was there
// before stays. Do not use it to decide anything: it reports and it holds.
package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/ethtool"
	"github.com/selvage/selvage/internal/namespace"
	"github.com/selvage/selvage/internal/overlay"
)

// requestTimeout bounds one netlink exchange.
const requestTimeout = 5 * time.Second

// Want is what Observe looks at.
type Want struct {
	Interfaces []string
	// Patterns are of names of interfaces, as in tap*.
	Patterns []string
	TEPs     []netip.Addr // of one family
	// Pairs are the ways to look up, each from one of TEPs.
	Pairs []overlay.Pair
}

// State is what the host was like at one moment.
type State struct {
	// Links has the wanted interfaces that exist, by the name they were asked for.
	Links map[string]Link
	// Aliases are those of the interfaces that match a wanted pattern, by name; "" of one without.
	Aliases map[string]string
	// TEPs has those of the wanted ones that are addresses of this host.
	TEPs map[netip.Addr]bool
	// Routes has the pairs between which there is a route. One with several next hops (ECMP) has an
	// entry for each of them, and none for the pair as such.
	Routes map[overlay.Pair]Path
	// Vias has the next hops of those, sorted.
	Vias map[overlay.Pair][]overlay.Via
	// ChecksumDevices has the held tunnel devices that are enabled: their ifindexes by UDP port.
	ChecksumDevices map[uint16]int
	// GRODevice is the held pair; zero while it is not there.
	GRODevice GRODevice
}

// Link is a network interface.
type Link struct {
	Name  string
	Index int
	Kind  string // "veth", "tun", …; "" of a physical interface
	MTU   int    // an IP packet's size in bytes
	MAC   overlay.MAC
	Up    bool // enabled and with a carrier, as far as the driver tells
	// NotEthernet is the type of a link whose frames have no Ethernet header, in the words of ip-link(8): "none" of tun and
	// WireGuard.
	NotEthernet string
	Loopback    bool
	// PeerElsewhere says that this is a veth whose other end is in another namespace.
	PeerElsewhere bool
	// Segments says that it takes large TCP segments (ethtool's
	// tcp-segmentation-offload), or that the driver does not tell. Observe sets it.
	Segments bool
	// XDP is what the driver can do. Observe sets it.
	XDP XDP
}

// Physical reports whether the link filters by destination MAC in hardware:
// a device without a software kind that is not the loopback.
func (l Link) Physical() bool { return l.Kind == "" && !l.Loopback }

// NextHop is a neighbour on the underlay.
type NextHop struct {
	Ifindex int        `json:"ifindex"`
	Addr    netip.Addr `json:"addr"`
}

// Path is the way from a TEP to a remote's.
type Path struct {
	NextHop
	Interface string
	Local     bool // the remote is an address of this host
	MTU       int  // of the interface, or of the route when that is less
	SrcMAC    overlay.MAC
	NextMAC   overlay.MAC // zero while unresolved
	Weight    int         // among the next hops of the route; 0 where it is the only one
}

// PathsOf are the keys of Routes for a pair, the first next hop first.
func (v State) PathsOf(pair overlay.Pair) (paths []overlay.Pair) {
	if _, ok := v.Routes[pair]; ok {
		return []overlay.Pair{pair}
	}
	for _, via := range v.Vias[pair] {
		paths = append(paths, overlay.Pair{Local: pair.Local, Remote: pair.Remote, Via: via})
	}
	return paths
}

// Host is one network namespace. Its methods are for one goroutine.
type Host struct {
	ns      netns.NsHandle
	handle  *netlink.Handle
	tool    *ethtool.Tool
	xdp     *xdpQuery
	log     *slog.Logger
	held    *record
	devices devices
	known   neighbours
	facts   facts

	watcher *watcher
	cancel  context.CancelFunc
}

// Open watches the network namespace of the calling thread. recordPath is the
// file that remembers what Hold changed; a former process's record is taken over.
func Open(recordPath string, log *slog.Logger) (*Host, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ns, err := netns.Get()
	if err != nil {
		return nil, fmt.Errorf("open the network namespace: %w", err)
	}
	h := &Host{ns: ns, log: log}
	h.watcher = &watcher{ns: ns, known: &h.known, facts: &h.facts, log: log, changed: make(chan struct{}, 1), lost: make(chan int, lostMost)}
	if h.held, err = readRecord(recordPath, namespace.Cookie()); err != nil {
		return nil, errors.Join(err, ns.Close())
	}
	// Sockets stay in the namespace of the thread that opened them.
	if h.tool, err = ethtool.Open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open ethtool: %w", err), ns.Close())
	}
	if h.xdp, err = openXDPQuery(); err != nil {
		h.tool.Close()
		return nil, errors.Join(err, ns.Close())
	}
	if h.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		h.tool.Close()
		h.xdp.close()
		return nil, errors.Join(fmt.Errorf("open netlink: %w", err), ns.Close())
	}
	if err := h.handle.SetSocketTimeout(requestTimeout); err != nil {
		return nil, errors.Join(fmt.Errorf("set the netlink timeout: %w", err), h.closeSockets())
	}
	h.devices = devices{ns: ns, handle: h.handle, tool: h.tool, held: h.held, log: log, ungathered: make(map[uint16]time.Time)}
	sock, err := h.watcher.subscribe()
	if err != nil {
		return nil, errors.Join(err, h.closeSockets())
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	h.watcher.watch(ctx, sock)
	return h, nil
}

// Changed receives after something changed that Observe may report
// differently. Changes close to each other are one.
func (h *Host) Changed() <-chan struct{} { return h.watcher.changed }

// LinksLost receives the indexes of links that have no carrier any more, or are gone, as the kernel says so:
// before Changed, and before anything is observed. One that was lost before may be told of again. With more than
// the channel holds some are not told of.
func (h *Host) LinksLost() <-chan int { return h.watcher.lost }

// Close ends the watching. What is held stays; Hold(Holds{}) before it undoes that.
func (h *Host) Close() error {
	h.cancel()
	h.watcher.owned.Wait()
	return h.closeSockets()
}

func (h *Host) closeSockets() error {
	h.tool.Close()
	h.xdp.close()
	h.handle.Close()
	return h.ns.Close()
}
