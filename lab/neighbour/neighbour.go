// Package neighbour is ARP (RFC 826) and neighbour discovery (RFC 4861) of addresses that no
// interface has: it answers for those of a generator, and asks a device under test for its own.
//
// Its invariant: all of it lives in one packet socket, so that a killed process leaves nothing
// behind. Do not use it for addresses that a host has; its kernel answers for these.
package neighbour

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/lab/topo"
)

// Options are what a Responder speaks for.
type Options struct {
	// Own are the networks that it answers for, but for the addresses of Others.
	Own    []netip.Prefix
	Others []netip.Addr
	// VLAN is the tag of what is sent and heard, 0 for none.
	VLAN uint16
}

// Responder is a neighbour on the link of one interface.
type Responder struct {
	port     topo.Port
	options  Options
	socket   int
	answered atomic.Uint64
	done     chan struct{}

	mu    sync.Mutex
	known map[netip.Addr]net.HardwareAddr
	heard chan struct{} // closed, and made anew, with each neighbour that is heard of
}

// Open starts to answer at a port.
func Open(port topo.Port, o Options) (*Responder, error) {
	r := &Responder{port: port, options: o, socket: -1, done: make(chan struct{}), known: map[netip.Addr]net.HardwareAddr{}, heard: make(chan struct{})}
	if err := topo.InNamespace(port.Namespace, r.open); err != nil {
		if r.socket >= 0 {
			unix.Close(r.socket)
		}
		return nil, fmt.Errorf("neighbours at %s: %w", port, err)
	}
	go r.listen()
	return r, nil
}

// patience is how long a read waits, and so the longest that Close does.
const patience = 100 * time.Millisecond

// open makes the socket in the port's namespace.
func (r *Responder) open() (err error) {
	// Of no protocol until it has its filter, so that it hears nothing else before.
	if r.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	wait := unix.NsecToTimeval(int64(patience))
	everyone := unix.PacketMreq{Ifindex: int32(r.port.Index), Type: unix.PACKET_MR_ALLMULTI} // solicitations are multicast
	return errors.Join(
		filter(r.socket),
		unix.SetsockoptTimeval(r.socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait),
		unix.SetsockoptInt(r.socket, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
		unix.SetsockoptInt(r.socket, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptPacketMreq(r.socket, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &everyone),
		unix.Bind(r.socket, &unix.SockaddrLinklayer{Protocol: hostOrder(unix.ETH_P_ALL), Ifindex: r.port.Index}),
	)
}

// hostOrder is a protocol as the kernel wants it in a host's word.
func hostOrder(p uint16) uint16 { return p<<8 | p>>8 }

// filter lets ARP, solicitations and advertisements into a socket.
func filter(socket int) error {
	const load, loadByte, equal, end, all = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, unix.BPF_LD | unix.BPF_B | unix.BPF_ABS,
		unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K, 1 << 16
	program := []unix.SockFilter{
		{Code: load, K: 12},
		{Code: equal, K: unix.ETH_P_ARP, Jt: 6},
		{Code: equal, K: unix.ETH_P_IPV6, Jf: 6},
		{Code: loadByte, K: 20},
		{Code: equal, K: unix.IPPROTO_ICMPV6, Jf: 4},
		{Code: loadByte, K: 54},
		{Code: equal, K: solicitation, Jt: 1},
		{Code: equal, K: advertisement, Jf: 1},
		{Code: end, K: all},
		{Code: end, K: 0},
	}
	return unix.SetsockoptSockFprog(socket, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
}

// listen hears and answers until Close.
func (r *Responder) listen() {
	defer close(r.done)
	frame, control := make([]byte, 2048), make([]byte, 128)
	for {
		n, m, _, _, err := unix.Recvmsg(r.socket, frame, control, 0)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR), errors.Is(err, unix.ENETDOWN):
		case err != nil:
			return
		case tagOf(control[:m]) == r.options.VLAN:
			r.hear(frame[:n])
		}
		if r.closing() {
			return
		}
	}
}

func (r *Responder) closing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heard == nil
}

// tagOf is the VLAN that the kernel took off a frame, 0 for none.
func tagOf(control []byte) uint16 {
	const statusOff, tagOff, length = 0, 16, 20 // struct tpacket_auxdata
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA && len(m.Data) >= length && native.Uint32(m.Data[statusOff:])&unix.TP_STATUS_VLAN_VALID != 0 {
			return native.Uint16(m.Data[tagOff:]) & 0xfff
		}
	}
	return 0
}

// hear keeps who a frame is of, and answers it if it asks for an own address.
func (r *Responder) hear(frame []byte) {
	m, ok := parse(frame)
	if !ok {
		return
	}
	if m.sender.IsValid() && !m.sender.IsUnspecified() {
		r.learn(m.sender, m.mac)
	}
	if !m.asks || !r.owns(m.target) || !m.sender.IsValid() || m.sender.IsUnspecified() || m.sender == m.target {
		return
	}
	if r.send(reply(m, r.port.MAC)) == nil {
		r.answered.Add(1)
	}
}

func (r *Responder) learn(addr netip.Addr, mac net.HardwareAddr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.known[addr]; (known || len(r.known) < mostKnown) && r.heard != nil {
		r.known[addr] = mac
		close(r.heard)
		r.heard = make(chan struct{})
	}
}

// mostKnown bounds what others can have this program keep.
const mostKnown = 1024

func (r *Responder) owns(addr netip.Addr) bool {
	for _, other := range r.options.Others {
		if addr == other {
			return false
		}
	}
	for _, network := range r.options.Own {
		if network.Contains(addr) {
			return true
		}
	}
	return false
}

func (r *Responder) send(frame []byte) error {
	if tag := r.options.VLAN; tag != 0 {
		frame = append(append(append([]byte{}, frame[:12]...), 0x81, 0, byte(tag>>8), byte(tag)), frame[12:]...)
	}
	return unix.Sendto(r.socket, frame, 0, &unix.SockaddrLinklayer{Ifindex: r.port.Index})
}

// again is the time between two requests.
const again = 200 * time.Millisecond

// Resolve asks for the MAC address of a neighbour, from an own address, until it answers or ctx ends.
func (r *Responder) Resolve(ctx context.Context, addr, from netip.Addr) (net.HardwareAddr, error) {
	for {
		r.mu.Lock()
		mac, heard := r.known[addr], r.heard
		r.mu.Unlock()
		if mac != nil {
			return mac, nil
		}
		if err := r.send(request(addr, from, r.port.MAC)); err != nil {
			return nil, fmt.Errorf("ask for %s at %s: %w", addr, r.port, err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s does not answer at %s, asked from %s: is this its address, is it on this link, and is its interface up?", addr, r.port, from)
		case <-heard:
		case <-time.After(again):
		}
	}
}

// Announce sends a frame to all, so that switches learn where this port is.
func (r *Responder) Announce(addr netip.Addr) error {
	if err := r.send(request(addr, addr, r.port.MAC)); err != nil {
		return fmt.Errorf("announce %s: %w", r.port, err)
	}
	return nil
}

// Answered is how many requests were answered.
func (r *Responder) Answered() uint64 { return r.answered.Load() }

// Close ends it.
func (r *Responder) Close() error {
	r.mu.Lock()
	r.heard = nil
	r.mu.Unlock()
	<-r.done
	return unix.Close(r.socket)
}
