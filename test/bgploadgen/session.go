package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/evpn/speaker"
)

const (
	bgpPort = 179
	// perMessage is how many routes with the same attributes are in a message, as reflectors pack them:
	// of 4,096 bytes at most (RFC 4271 section 4).
	perMessage = 80
	dialAgain  = time.Second
)

// session is one that keeps no table: what it has to send is encoded when it is sent, so that the neighbour is
// what limits how fast.
type session struct {
	conn net.Conn
	mu   sync.Mutex // whose turn it is to write
}

// dial opens one, and tries again until ctx ends: the neighbour may not listen yet.
func dial(ctx context.Context, local, neighbour netip.Addr, as uint32, hold time.Duration) (*session, error) {
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(local, 0))}
	for {
		conn, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(neighbour, bgpPort).String())
		if err == nil {
			s := &session{conn: conn}
			if err = s.open(local, as, hold); err == nil {
				go s.read()
				go s.keep(ctx, hold/3)
				return s, nil
			}
			conn.Close()
		}
		fmt.Fprintln(os.Stderr, "bgploadgen: again:", err)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(dialAgain):
		}
	}
}

// open exchanges OPEN and KEEPALIVE.
func (s *session) open(id netip.Addr, as uint32, hold time.Duration) error {
	open, err := bgp.NewBGPOpenMessage(uint16(as), uint16(hold.Seconds()), id, []bgp.OptionParameterInterface{
		bgp.NewOptionParameterCapability([]bgp.ParameterCapabilityInterface{bgp.NewCapMultiProtocol(bgp.RF_EVPN), bgp.NewCapFourOctetASNumber(as)}),
	})
	if err != nil {
		return err
	}
	if err := s.send(open); err != nil {
		return err
	}
	if err := s.conn.SetReadDeadline(time.Now().Add(hold)); err != nil {
		return err
	}
	for _, want := range []uint8{bgp.BGP_MSG_OPEN, bgp.BGP_MSG_KEEPALIVE} {
		if err := s.await(want); err != nil {
			return err
		}
	}
	return s.conn.SetReadDeadline(time.Time{})
}

// await reads a message, of that type; it answers an OPEN.
func (s *session) await(want uint8) error {
	kind, body, err := s.receive()
	switch {
	case err != nil:
		return err
	case kind != want:
		return fmt.Errorf("message of type %d, want %d: % x", kind, want, body)
	case kind == bgp.BGP_MSG_OPEN:
		return s.send(bgp.NewBGPKeepAliveMessage())
	}
	return nil
}

func (s *session) receive() (kind uint8, body []byte, err error) {
	header := make([]byte, bgp.BGP_HEADER_LENGTH)
	if _, err := io.ReadFull(s.conn, header); err != nil {
		return 0, nil, err
	}
	length := int(binary.BigEndian.Uint16(header[16:]))
	if length < len(header) {
		return 0, nil, fmt.Errorf("message of %d bytes", length)
	}
	body = make([]byte, length-len(header))
	_, err = io.ReadFull(s.conn, body)
	return header[18], body, err
}

// read reads what it does not use until the session ends.
func (s *session) read() {
	for {
		kind, body, err := s.receive()
		if err != nil {
			return
		}
		if kind == bgp.BGP_MSG_NOTIFICATION {
			fmt.Fprintf(os.Stderr, "bgploadgen: notification % x\n", body)
		}
	}
}

func (s *session) keep(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if s.send(bgp.NewBGPKeepAliveMessage()) != nil {
				return
			}
		}
	}
}

func (s *session) send(m *bgp.BGPMessage) error {
	b, err := m.Serialize()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err = s.conn.Write(b)
	return err
}

// announce sends routes, those with the same attributes that follow each other in one message.
func (s *session) announce(routes []evpn.Route) error {
	var nlris []bgp.PathNLRI
	var shared []bgp.PathAttributeInterface
	var hop netip.Addr
	var key []byte
	flush := func() error {
		if len(nlris) == 0 {
			return nil
		}
		reach, err := bgp.NewPathAttributeMpReachNLRI(bgp.RF_EVPN, nlris, hop)
		if err != nil {
			return err
		}
		nlris = nil
		return s.send(bgp.NewBGPUpdateMessage(nil, append(shared, reach), nil))
	}
	for _, r := range routes {
		nlri, attrs, err := speaker.Encode(r)
		if err != nil {
			return err
		}
		rest, is, err := withoutReach(attrs)
		if err != nil {
			return err
		}
		if len(nlris) == perMessage || r.NextHop != hop || !bytes.Equal(is, key) {
			if err := flush(); err != nil {
				return err
			}
		}
		shared, hop, key = append(rest, bgp.NewPathAttributeAsPath(nil)), r.NextHop, is // of the same AS
		nlris = append(nlris, bgp.PathNLRI{NLRI: nlri})
	}
	return flush()
}

// withoutReach are the attributes that routes may share, and their bytes.
func withoutReach(attrs []bgp.PathAttributeInterface) (rest []bgp.PathAttributeInterface, key []byte, err error) {
	for _, a := range attrs {
		if a.GetType() == bgp.BGP_ATTR_TYPE_MP_REACH_NLRI {
			continue
		}
		b, err := a.Serialize()
		if err != nil {
			return nil, nil, err
		}
		rest, key = append(rest, a), append(key, b...)
	}
	return rest, key, nil
}

func (s *session) withdraw(routes []evpn.Route) error {
	for len(routes) > 0 {
		part := routes[:min(perMessage, len(routes))]
		routes = routes[len(part):]
		nlris := make([]bgp.PathNLRI, 0, len(part))
		for _, r := range part {
			nlri, err := speaker.EncodeKey(r)
			if err != nil {
				return err
			}
			nlris = append(nlris, bgp.PathNLRI{NLRI: nlri})
		}
		gone, err := bgp.NewPathAttributeMpUnreachNLRI(bgp.RF_EVPN, nlris)
		if err != nil {
			return err
		}
		if err := s.send(bgp.NewBGPUpdateMessage(nil, []bgp.PathAttributeInterface{gone}, nil)); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) close() { s.conn.Close() }
