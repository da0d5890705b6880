package duplicate

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/packetsocket"
)

// Link is where an address is.
type Link struct {
	Interface string
	Ifindex   int
	VLAN      uint16 // 0: untagged
	MAC       overlay.MAC
}

const (
	// probeEvery is how far the probes for one address are apart, and how long the last is waited for. RFC 5227 has 1 to 2 s between probes, for
	// networks whose ports are blocked at first: an uplink that carries traffic is none.
	probeEvery = 200 * time.Millisecond
	// asksMost are sent before others may send.
	asksMost = 64
)

// Ask sends probes for addresses, and says which MAC address other than that of the link says that it has one. It must be called in the network
// namespace.
func Ask(ctx context.Context, l Link, addrs []netip.Addr, probes int) (others map[netip.Addr]overlay.MAC, err error) {
	s, err := packetsocket.Open(l.Ifindex, filterFor(l.VLAN))
	if err != nil {
		return nil, err
	}
	others = map[netip.Addr]overlay.MAC{}
	wanted := make(map[netip.Addr]bool, len(addrs))
	for _, a := range addrs {
		wanted[a] = true
	}
	var reader sync.WaitGroup
	reader.Go(func() {
		b := make([]byte, 2048)
		for {
			frame, err := s.Receive(b)
			if err != nil { // closed, or the interface went
				return
			}
			if addr, mac := claim(frame); wanted[addr] && mac != l.MAC {
				others[addr] = mac
			}
		}
	})
	for range probes {
		if err = send(ctx, s, l, addrs); err != nil {
			break
		}
	}
	err = errors.Join(err, s.Close())
	reader.Wait()
	return others, err
}

// send asks once for each address, and waits for answers.
func send(ctx context.Context, s *packetsocket.Socket, l Link, addrs []netip.Addr) error {
	pace := time.NewTicker(probeEvery)
	defer pace.Stop()
	for {
		some := addrs[:min(asksMost, len(addrs))]
		for _, addr := range some {
			if err := s.Send(l.Ifindex, datapath.AddressProbe(l.MAC, l.VLAN, addr)); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pace.C:
		}
		if addrs = addrs[len(some):]; len(addrs) == 0 {
			return nil
		}
	}
}

// Defend tells the network that addresses are here (RFC 5227 section 2.4).
func Defend(l Link, addrs []netip.Addr, router bool) error {
	s, err := packetsocket.Open(l.Ifindex, []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}})
	if err != nil {
		return err
	}
	for _, addr := range addrs {
		err = errors.Join(err, s.Send(l.Ifindex, datapath.AddressAnnouncement(l.MAC, l.VLAN, addr, router)))
	}
	return errors.Join(err, s.Close())
}

// vlanField loads the VLAN tag, which the kernel takes off a frame: SKF_AD_OFF and SKF_AD_VLAN_TAG of linux/filter.h.
const vlanField = 0xfffff000 + 44

// filterFor takes ARP and neighbour advertisements of a VLAN.
func filterFor(vlan uint16) []unix.SockFilter {
	load := func(size, at uint32) unix.SockFilter {
		return unix.SockFilter{Code: uint16(unix.BPF_LD | size | unix.BPF_ABS), K: at}
	}
	equals := func(value uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: yes, Jf: no, K: value}
	}
	return []unix.SockFilter{
		load(unix.BPF_W, vlanField),
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xfff},
		equals(uint32(vlan), 0, 7),
		load(unix.BPF_H, 12),
		equals(unix.ETH_P_ARP, 6, 0),
		equals(unix.ETH_P_IPV6, 0, 4),
		load(unix.BPF_B, 20),
		equals(unix.IPPROTO_ICMPV6, 0, 2),
		load(unix.BPF_B, 54),
		equals(neighbourAdvertisement, 1, 0),
		{Code: unix.BPF_RET | unix.BPF_K},
		{Code: unix.BPF_RET | unix.BPF_K, K: 2048},
	}
}

const (
	neighbourAdvertisement = 136 // RFC 4861 section 4.4
	arpLength              = 14 + 28
	advertisementLength    = 14 + 40 + 24
)

// claim is which address a frame says that a MAC address has; the zero ones where it says nothing of that.
func claim(frame []byte) (addr netip.Addr, mac overlay.MAC) {
	if len(frame) < arpLength {
		return addr, mac
	}
	mac = overlay.MAC(frame[6:12])
	switch binary.BigEndian.Uint16(frame[12:]) {
	case unix.ETH_P_ARP:
		addr = netip.AddrFrom4([4]byte(frame[28:32]))
		if binary.BigEndian.Uint16(frame[14:]) != 1 || binary.BigEndian.Uint16(frame[16:]) != unix.ETH_P_IP || addr.IsUnspecified() {
			return netip.Addr{}, mac
		}
		return addr, overlay.MAC(frame[22:28])
	case unix.ETH_P_IPV6:
		if len(frame) >= advertisementLength && frame[20] == unix.IPPROTO_ICMPV6 && frame[21] == 255 && frame[54] == neighbourAdvertisement {
			return netip.AddrFrom16([16]byte(frame[62:78])), mac
		}
	}
	return netip.Addr{}, mac
}
