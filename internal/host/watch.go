package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/overlay"
)

const (
	// debounce is how long a change waits for others to join it. A link that is lost waits for
	// none: packets should go by another one. Nor does one whose alias makes it a port.
	debounce = 50 * time.Millisecond
	// resubscribeAfter is the pause after a subscription broke.
	resubscribeAfter = time.Second
	receiveBuffer    = 1 << 20 // bytes
	// lostMost is how many lost links wait to be told of.
	lostMost = 64
)

// watcher tells of what Observe would report differently.
type watcher struct {
	ns    netns.NsHandle
	known *neighbours
	facts *facts
	log   *slog.Logger

	changed chan struct{}
	lost    chan int
	owned   sync.WaitGroup
}

// subscribe opens one socket for all that Observe depends on.
func (w *watcher) subscribe() (*nl.NetlinkSocket, error) {
	sock, err := socketIn(w.ns, func(at netns.NsHandle) (*nl.NetlinkSocket, error) {
		return nl.SubscribeAt(at, netns.None(), unix.NETLINK_ROUTE,
			unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_NEXTHOP,
			unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV4_RULE,
			unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV6_RULE)
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to netlink events: %w", err)
	}
	// Without the larger buffer events are only lost earlier, which is noticed.
	_ = sock.SetReceiveBufferSize(receiveBuffer, true)
	return sock, nil
}

// watch turns events into Changed until ctx ends. It owns sock and the two
// goroutines that w.owned waits for.
func (w *watcher) watch(ctx context.Context, sock *nl.NetlinkSocket) {
	events, lost := make(chan struct{}, 1), make(chan struct{}, 1)
	w.owned.Go(func() {
		for sock != nil {
			w.receive(ctx, sock, events, lost)
			w.facts.forget(0)
			notify(events) // whatever was missed in between
			sock = w.resubscribe(ctx)
		}
	})
	w.owned.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-events:
			}
			select {
			case <-ctx.Done():
				return
			case <-lost:
			case <-time.After(debounce):
			}
			drain(events)
			drain(lost)
			notify(w.changed)
		}
	})
}

// receive reads sock until it breaks or ctx ends, and closes it.
func (w *watcher) receive(ctx context.Context, sock *nl.NetlinkSocket, events, lost chan<- struct{}) {
	stop := context.AfterFunc(ctx, sock.Close)
	defer func() {
		if stop() {
			sock.Close()
		}
	}()
	for {
		messages, _, err := sock.Receive()
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, unix.ENOBUFS): // overrun: events are lost, the socket is not
			w.facts.forget(0)
			notify(events)
			continue
		case err != nil:
			w.log.Warn("netlink events broke off, subscribing again", "err", err)
			return
		}
		for _, m := range messages {
			if ifindex := lostLink(m); ifindex != 0 {
				select {
				case w.lost <- ifindex:
				default:
				}
			}
			if ifindex := linkOfMessage(m); ifindex > 0 {
				w.facts.forget(ifindex)
			}
			if w.matters(m) {
				notify(events)
			}
			if isLoss(m) || isAliased(m) {
				notify(lost)
			}
		}
	}
}

// linkOfMessage is the link that a message is of, 0 of other messages.
func linkOfMessage(m syscall.NetlinkMessage) int {
	if m.Header.Type != unix.RTM_DELLINK && m.Header.Type != unix.RTM_NEWLINK || len(m.Data) < unix.SizeofIfInfomsg {
		return 0
	}
	return int(nl.DeserializeIfInfomsg(m.Data).Index)
}

// isLoss reports whether a link went, or has no carrier.
func isLoss(m syscall.NetlinkMessage) bool {
	switch m.Header.Type {
	case unix.RTM_DELLINK:
		return true
	case unix.RTM_NEWLINK:
		return len(m.Data) >= unix.SizeofIfInfomsg && nl.DeserializeIfInfomsg(m.Data).Flags&unix.IFF_RUNNING == 0
	}
	return false
}

// isAliased reports whether a link has an alias that is meant for an edge: a guest waits for its port.
func isAliased(m syscall.NetlinkMessage) bool {
	return m.Header.Type == unix.RTM_NEWLINK && bytes.Contains(m.Data, []byte(aliasWord+" "))
}

// aliasWord begins the alias of an interface that is meant for an edge.
const aliasWord = "selvage"

// lostLink is the index of a link that is gone or has no carrier, 0 of other messages. Its operational state, which
// waits for protocols too, does not count.
func lostLink(m syscall.NetlinkMessage) int {
	if m.Header.Type != unix.RTM_DELLINK && m.Header.Type != unix.RTM_NEWLINK || len(m.Data) < unix.SizeofIfInfomsg {
		return 0
	}
	info := nl.DeserializeIfInfomsg(m.Data)
	if m.Header.Type == unix.RTM_NEWLINK && info.Flags&unix.IFF_LOWER_UP != 0 || info.Family != unix.AF_UNSPEC {
		return 0
	}
	return int(info.Index)
}

// resubscribe tries until it has a socket; nil when ctx ended.
func (w *watcher) resubscribe(ctx context.Context) *nl.NetlinkSocket {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(resubscribeAfter):
		}
		sock, err := w.subscribe()
		if err == nil {
			return sock
		}
		w.log.Warn("netlink events are unavailable", "err", err)
	}
}

// matters drops the events of neighbours that are no next hop or still have
// the same MAC address: a kernel that probes them reports every state.
func (w *watcher) matters(m syscall.NetlinkMessage) bool {
	if m.Header.Type != unix.RTM_NEWNEIGH && m.Header.Type != unix.RTM_DELNEIGH {
		return true
	}
	n, err := netlink.NeighDeserialize(m.Data)
	if err != nil || n.Family == unix.AF_BRIDGE {
		return false
	}
	addr, ok := netip.AddrFromSlice(n.IP)
	if !ok {
		return false
	}
	mac := usableMAC(*n)
	if m.Header.Type == unix.RTM_DELNEIGH {
		mac = overlay.MAC{}
	}
	return w.known.changed(NextHop{n.LinkIndex, addr.Unmap()}, mac)
}

// notify leaves a mark in a channel of capacity one.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func drain(c <-chan struct{}) {
	select {
	case <-c:
	default:
	}
}
