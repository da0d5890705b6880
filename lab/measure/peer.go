package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"
)

// Peer is one connection from both ends: what is between them may translate the client's address.
type Peer struct {
	Local netip.Addr `json:"local"` // of the client, as the client sees it
	Seen  netip.Addr `json:"seen"`  // of the client, as the server sees it
}

// PeerServer writes to each connection the address that it comes from, until it is killed.
type PeerServer struct{ Endpoint }

// PeerClient opens connections one after the other and prints a Peer for each.
type PeerClient struct {
	Endpoint
	Connections int `default:"8" help:"how many, each from a source port of its own"`
}

// peerPatience is how long either end waits for the other: longer than TCP waits before it sends a
// second SYN again (RFC 6298: one second, then two).
const peerPatience = 4 * time.Second

// mostPeer bounds what the client reads, in bytes.
const mostPeer = 256

// Run serves.
func (s *PeerServer) Run() error {
	listener, err := listenTCP(s.Addr, s.Port)
	if err != nil {
		return err
	}
	defer listener.Close()
	for {
		conn, err := listener.AcceptTCP()
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		tellPeer(conn)
	}
}

// tellPeer answers a connection and closes it. One that its client gave up is none.
func tellPeer(conn *net.TCPConn) {
	defer conn.Close()
	seen := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap().WithZone("")
	if conn.SetDeadline(time.Now().Add(peerPatience)) == nil {
		_ = json.NewEncoder(conn).Encode(Peer{Seen: seen})
	}
}

// Run asks and prints the peers to standard output.
func (c *PeerClient) Run() error {
	peers := make([]Peer, 0, c.Connections)
	for i := range c.Connections {
		peer, err := c.ask()
		if err != nil {
			return fmt.Errorf("connection %d of %d: %w", i+1, c.Connections, err)
		}
		peers = append(peers, peer)
	}
	return json.NewEncoder(os.Stdout).Encode(peers)
}

func (c *PeerClient) ask() (peer Peer, err error) {
	conn, err := net.DialTimeout("tcp", netip.AddrPortFrom(c.Addr, uint16(c.Port)).String(), peerPatience)
	if err != nil {
		return peer, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(peerPatience)); err != nil {
		return peer, err
	}
	if err := json.NewDecoder(io.LimitReader(conn, mostPeer)).Decode(&peer); err != nil {
		return peer, fmt.Errorf("answer of %s port %d: %w", c.Addr, c.Port, err)
	}
	peer.Local = conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap().WithZone("")
	return peer, nil
}

// peer are the arguments of a role.
func (r Role) peer() []string {
	if r.Server {
		return []string{"lab-peer-server"}
	}
	return append([]string{"lab-peer-client"}, flags("connections", max(1, r.Flows))...)
}

// ReadPeers are the connections that a client printed, in their order.
func ReadPeers(client json.RawMessage) ([]Peer, error) {
	var peers []Peer
	if err := readReport("peers", client, &peers); err != nil {
		return nil, err
	}
	if len(peers) == 0 {
		return nil, errors.New("peers: there was no connection")
	}
	for _, p := range peers {
		if !p.Local.IsValid() || !p.Seen.IsValid() {
			return nil, fmt.Errorf("peers: %+v lacks an address: does a proxy answer in the server's place?", p)
		}
	}
	return peers, nil
}
