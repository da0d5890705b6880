package attacker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/lab/experiment/attack/network"
	"github.com/selvage/selvage/lab/topo"
)

// Held are connections that are open during an attack and say nothing.
type Held struct {
	listener net.Listener
	conns    []net.Conn
}

// Of Held: how many of each pair, RFC 862's port, and how long one may take to answer after an attack.
const (
	heldConns = 16
	echoPort  = 7
	echoTime  = 2 * time.Second
)

// Hold opens them from a client to an address of a server.
func Hold(client, server *topo.Host, addr netip.Addr) (h *Held, err error) {
	h = &Held{}
	to := netip.AddrPortFrom(addr, echoPort).String()
	if err = server.Do(func() (err error) { h.listener, err = net.Listen("tcp", to); return err }); err != nil {
		return nil, fmt.Errorf("listen at %s: %w", server.Name, err)
	}
	go h.echo()
	for range heldConns {
		var conn net.Conn
		err = client.Do(func() (err error) { conn, err = net.DialTimeout("tcp", to, echoTime); return err })
		if err != nil {
			h.Close()
			return nil, fmt.Errorf("connection of %s: %w", client.Name, err)
		}
		h.conns = append(h.conns, conn)
	}
	return h, nil
}

// echo answers until Close.
func (h *Held) echo() {
	for {
		conn, err := h.listener.Accept()
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(conn, conn) // it ends with the client's end
			_ = conn.Close()
		}()
	}
}

// Lost is how many of them answer no more.
func (h *Held) Lost() int {
	lost := 0
	answers := make(chan bool)
	for _, conn := range h.conns {
		go func() { answers <- answered(conn) }()
	}
	for range h.conns {
		if !<-answers {
			lost++
		}
	}
	return lost
}

func answered(conn net.Conn) bool {
	one := []byte{1}
	if conn.SetDeadline(time.Now().Add(echoTime)) != nil {
		return false
	}
	if _, err := conn.Write(one); err != nil {
		return false
	}
	_, err := io.ReadFull(conn, one)
	return err == nil
}

// Close closes them.
func (h *Held) Close() {
	for _, conn := range h.conns {
		_ = conn.Close()
	}
	_ = h.listener.Close()
}

// Newcomer says how many frames for a MAC address that a guest has just begun to use reach a third
// guest of its segment: 0 where the bridges have learned it. Numbers make the MAC addresses.
func Newcomer(ctx context.Context, n *network.Network, segment, number int) (leaked int, err error) {
	guest, sender, third := n.Guest(network.RoleLoose), n.Guest(network.RoleSame2), n.Guest(network.RoleSame1)
	if segment == 1 {
		guest, sender, third = n.Guest(network.RoleBystander), n.Guest(network.RoleOther2), n.Guest(network.RoleOther1)
	}
	mac := net.HardwareAddr{2, 0xcc, byte(segment), byte(number >> 16), byte(number >> 8), byte(number)}
	t, err := listen(third.Host, topo.EndName, []clause{{field(0, 4, 0x02cc0000|uint32(segment)<<8|uint32(number>>16)), field(4, 2, uint32(number&0xffff))}})
	if err != nil {
		return 0, err
	}
	defer t.Close()
	hello, talk := ether(broadcast(), mac, etherExperiment, nil), ether(mac, sender.MAC, etherExperiment, nil)
	for _, from := range []struct {
		guest *network.Guest
		frame []byte
	}{{guest, hello}, {sender, talk}, {sender, talk}} {
		if err := once(from.guest, from.frame); err != nil {
			return 0, err
		}
		if err := pause(ctx, newcomerTime); err != nil {
			return 0, err
		}
	}
	return t.Count()
}

// newcomerTime is what a bridge has to learn a MAC address.
const newcomerTime = 15 * time.Millisecond

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// once sends one frame of a guest.
func once(g *network.Guest, frame []byte) error {
	fd, err := open(stream{host: g.Host, name: topo.EndName})
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, frame)
	if err != nil {
		err = os.NewSyscallError("send", err)
	}
	return errors.Join(err, unix.Close(fd))
}
