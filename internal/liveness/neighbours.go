package liveness

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/overlay"
)

// neighbourPeers are the sessions that watch over BGP neighbours and are not those of paths,
// and the neighbour of each pair. It must be called in the network namespace.
func neighbourPeers(config overlay.Edge, paths []bfd.Peer) (peers []bfd.Peer, neighbours map[overlay.Pair]netip.Addr, err error) {
	neighbours = make(map[overlay.Pair]netip.Addr)
	if config.BGP == nil || config.Underlay.Liveness == nil {
		return nil, neighbours, nil
	}
	var errs []error
	timers := bfd.Timers{Interval: config.Underlay.Liveness.Interval, Multiplier: config.Underlay.Liveness.Multiplier}
	for _, n := range config.BGP.Neighbours {
		if !n.Liveness {
			continue
		}
		local := n.Local
		if !local.IsValid() {
			if local, err = sourceTo(n.Addr); err != nil {
				errs = append(errs, fmt.Errorf("BGP neighbour %s: %w", n.Name, err))
				continue
			}
		}
		pair := overlay.Pair{Local: local, Remote: n.Addr}
		neighbours[pair] = n.Addr
		if slices.ContainsFunc(paths, func(p bfd.Peer) bool { return p.Pair == pair }) {
			continue // the path's session serves both
		}
		peers = append(peers, bfd.Peer{Pair: pair, Hops: hopsTo(n, local), Timers: timers})
	}
	return peers, neighbours, errors.Join(errs...)
}

// hopsTo is how many links a session crosses: one, which is a kind of its own (RFC 5881), with
// a neighbour on a network of this host, unless the configuration says more.
func hopsTo(n overlay.BGPNeighbour, local netip.Addr) int {
	switch {
	case n.Hops > 0:
		return int(n.Hops)
	case onLink(local, n.Addr):
		return 1
	}
	return bfd.MaxHops
}

// onLink reports whether remote is on the network of the host's address local.
func onLink(local, remote netip.Addr) bool {
	addrs, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(addrs, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr() == local && p.Contains(remote)
	})
}

// sourceTo is the address from which the host sends to another.
func sourceTo(remote netip.Addr) (netip.Addr, error) {
	domain, to := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Addr: remote.As16(), Port: 1})
	if remote.Is4() {
		domain, to = unix.AF_INET, &unix.SockaddrInet4{Addr: remote.As4(), Port: 1}
	}
	fd, err := unix.Socket(domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("look up the route to %s: %w", remote, err)
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, to); err != nil { // nothing is sent
		return netip.Addr{}, fmt.Errorf("no route to %s: add one, or set the neighbour's localAddress: %w", remote, err)
	}
	from, err := unix.Getsockname(fd)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("look up the route to %s: %w", remote, err)
	}
	if from, ok := from.(*unix.SockaddrInet4); ok {
		return netip.AddrFrom4(from.Addr), nil
	}
	return netip.AddrFrom16(from.(*unix.SockaddrInet6).Addr), nil
}
