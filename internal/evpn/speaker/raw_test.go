package speaker

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
)

// raw is a neighbour that writes bytes, at 127.0.0.2, of a speaker at 127.0.0.1.
type raw struct {
	t    *testing.T
	conn net.Conn
}

func rawMessage(kind byte, body ...byte) []byte {
	m := slices.Repeat([]byte{0xff}, 16)
	return append(append(binary.BigEndian.AppendUint16(m, uint16(19+len(body))), kind), body...)
}

func openMessage(hold uint16, id netip.Addr) []byte {
	capabilities := []byte{1, 4, 0, 25, 0, 70, 65, 4, 0, 0, 0xfd, 0xe8, 64, 2, 0, 60}
	b := binary.BigEndian.AppendUint16([]byte{4, 0xfd, 0xe8}, hold)
	b = append(b, id.AsSlice()...)
	return rawMessage(1, append(append(b, byte(len(capabilities)+2), 2, byte(len(capabilities))), capabilities...)...)
}

// rawNeighbour is how the speaker knows it.
func rawNeighbour(port uint16) overlay.BGPNeighbour {
	n := peer(two, overlay.FamilyEVPN)
	n.Local, n.Port, n.Passive = one, port, true
	return n
}

// speakTo runs a speaker that listens for it.
func speakTo(t *testing.T, port uint16, n overlay.BGPNeighbour) (*Speaker, *received) {
	t.Helper()
	loopback(t)
	b := config(n)
	b.RouterID, b.Listen = one, []netip.AddrPort{netip.AddrPortFrom(one, port)}
	return speak(t, b)
}

// dial connects once the speaker takes connections.
func dial(t *testing.T, port uint16) *raw {
	t.Helper()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(two, 0))}
	c, err := d.DialContext(t.Context(), "tcp", netip.AddrPortFrom(one, port).String())
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return &raw{t, c}
}

func (r *raw) write(m ...[]byte) {
	r.t.Helper()
	_, err := r.conn.Write(slices.Concat(m...))
	must(r.t, err)
}

// read returns the next message, for the time of a test; an error when the connection ends.
func (r *raw) read() (kind byte, body []byte, err error) {
	_ = r.conn.SetReadDeadline(time.Now().Add(await.Patience))
	head := make([]byte, 19)
	if _, err := io.ReadFull(r.conn, head); err != nil {
		return 0, nil, err
	}
	body = make([]byte, binary.BigEndian.Uint16(head[16:])-19)
	_, err = io.ReadFull(r.conn, body)
	return head[18], body, err
}

// establish has a session come up.
func (r *raw) establish(id netip.Addr) {
	r.t.Helper()
	r.write(openMessage(90, id))
	for {
		kind, body, err := r.read()
		must(r.t, err)
		switch kind {
		case 1:
			r.write(rawMessage(4))
		case 3:
			r.t.Fatalf("NOTIFICATION %v", body)
		case 4:
			return
		}
	}
}

// told is the NOTIFICATION by which the connection ends.
func (r *raw) told() (code, subcode byte, err error) {
	for {
		kind, body, err := r.read()
		if err != nil {
			return 0, 0, err
		}
		if kind == 3 {
			if _, _, err = r.read(); !errors.Is(err, io.EOF) {
				return body[0], body[1], fmt.Errorf("after the NOTIFICATION: %w", err)
			}
			return body[0], body[1], nil
		}
	}
}

func fromHex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

func attribute(flags, kind byte, value ...byte) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{flags | 0x10, kind}, uint16(len(value))), value...)
}

func updateMessage(attrs ...[]byte) []byte {
	list := slices.Concat(attrs...)
	return rawMessage(2, append(binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(len(list))), list...)...)
}

var (
	rawUsual = slices.Concat(attribute(0x40, 1, 0), attribute(0x40, 2), attribute(0x40, 5, 0, 0, 0, 100))
	rawRT    = attribute(0xc0, 16, fromHex("0002fde80000c3b3 030c000000000008 0603020000009999")...)
)

func reachOf(nlri ...byte) []byte {
	return attribute(0x80, 14, append(fromHex("0019 46 04 c0000202 00"), nlri...)...)
}

func unreachOf(nlri ...byte) []byte {
	return attribute(0x80, 15, append(fromHex("0019 46"), nlri...)...)
}

// networkNLRI is a type 5 of 10.77.N.0/24.
func networkNLRI(n byte) []byte {
	return fromHex("05 22 0001c00002020007 00000000000000000000 00000000 18 0a4d" + fmt.Sprintf("%02x", n) + "00 00000000 00c3b3")
}

func isNetwork(n byte) func(evpn.Route) bool {
	return func(r evpn.Route) bool {
		return r.Prefix == netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 77, n, 0}), 24)
	}
}

// rawPort is the first of those where a raw neighbour is met.
const rawPort = 1820

// Whatever routes, families and attributes a neighbour sends, its session and its later routes stay; what is malformed withdraws what
// was there, and all is counted by what it is.
func TestNoRouteEndsASession(t *testing.T) {
	t.Parallel()
	s, h := speakTo(t, rawPort, rawNeighbour(0))
	r := dial(t, rawPort)
	r.establish(two)
	good := func(n byte) []byte { return updateMessage(reachOf(networkNLRI(n)...), rawUsual, rawRT) }
	r.write(good(1), good(2), good(3), good(4))
	for kind := range 256 {
		odd := append([]byte{byte(kind), 16}, fromHex("0001c00002020007 00000000 20 e1000001")[:16]...)
		r.write(updateMessage(reachOf(odd...), rawUsual, rawRT), updateMessage(unreachOf(odd...)))
	}
	host := fromHex("0001c00002020007 00000000000000000000 00000000 30 020000000105 20 0a000a05 00271a")
	for n := range host {
		cut := append([]byte{2, byte(n)}, host[:n]...)
		r.write(updateMessage(reachOf(cut...), rawUsual, rawRT), updateMessage(unreachOf(cut...)))
	}
	r.write(
		updateMessage(attribute(0x80, 14, fromHex("0001 80 0c 0000000000000000c0000202 00 01")...), rawUsual), // VPNv4
		updateMessage(attribute(0x80, 15, fromHex("4004 47")...)),
		rawMessage(2, fromHex("0000 0000 180a0500")...), // IPv4, which was not agreed on
		updateMessage(reachOf(networkNLRI(1)...), attribute(0x40, 1), rawUsual[5:], rawRT),
		updateMessage(reachOf(networkNLRI(2)...), attribute(0x40, 1, 9), rawUsual[5:], attribute(0xc0, 16, fromHex("0655000000000000 0002fde80000c3b3")...)),
		updateMessage(reachOf(networkNLRI(3)...), attribute(0x40, 1, 0), attribute(0x40, 2, fromHex("02 02 0000fde9 0000fde8")...), rawUsual[9:], rawRT),
		updateMessage(reachOf(networkNLRI(5)...), rawUsual, rawRT, attribute(0xc0, 18, 1, 2, 3, 4, 5, 6, 7)),
	)
	l := &live{t: t}
	l.awaitRoute(h, "the last route", two, isNetwork(5))
	l.awaitRoute(h, "a route from before", two, isNetwork(4))
	for n, why := range map[byte]string{1: "ORIGIN of nothing", 2: "ORIGIN 9 beside an unknown community"} {
		if _, err := h.find(two, isNetwork(n)); err == nil {
			t.Errorf("%s: the old route stays", why)
		}
	}
	if looped, err := h.find(two, isNetwork(3)); err != nil || !looped.Looped {
		t.Errorf("a route with this AS in its path is %+v, %v", looped, err)
	}
	n := s.Neighbours()[0]
	if !n.Established || n.Flaps != 0 {
		t.Errorf("the neighbour is %+v", n)
	}
	for what, want := range map[string]uint64{"EVPN route type 6": 2, "EVPN route type 200": 2, "malformed EVPN route type 2": 2 + 2*uint64(len(host)), "malformed EVPN route type 3": 2,
		"family 1/128": 1, "family 16388/71": 1, "family 1/1": 1, "malformed ORIGIN": 2, "malformed AS4_AGGREGATOR": 1, "others": 0} {
		if got := n.Discarded[what]; what != "others" && got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
}

// A hold time of 0 is refused; the next connection may do better.
func TestHoldTimeZeroIsRefused(t *testing.T) {
	t.Parallel()
	s, _ := speakTo(t, rawPort+1, rawNeighbour(0))
	r := dial(t, rawPort+1)
	r.write(openMessage(0, two))
	if code, subcode, err := r.told(); err != nil || code != 2 || subcode != 6 {
		t.Errorf("%d/%d, %v; want 2/6", code, subcode, err)
	}
	must(t, awaitLong(t.Context(), "the reason", func() error {
		if why := s.Neighbours()[0].LastError; !strings.Contains(why, "its hold time is 0") {
			return errors.New(why)
		}
		return nil
	}))
	dial(t, rawPort+1).establish(two)
}

// What a neighbour writes about its shutdown (RFC 9003) does not act on a terminal.
func TestShutdownTextIsPlain(t *testing.T) {
	t.Parallel()
	s, h := speakTo(t, rawPort+2, rawNeighbour(0))
	r := dial(t, rawPort+2)
	r.establish(two)
	(&live{t: t}).awaitUp(s, h, two, false)
	text := "\x1b]0;owned\a\u009b2J\u202ebye\r\n"
	r.write(rawMessage(3, append([]byte{6, 2, byte(len(text))}, text...)...))
	must(t, awaitLong(t.Context(), "the reason", func() error {
		why := s.Neighbours()[0].LastError
		if !strings.Contains(why, "bye") {
			return errors.New(why)
		}
		if strings.ContainsAny(why, "\x1b\a\r\n\u009b\u202e") {
			t.Errorf("%q", why)
		}
		return nil
	}))
}

// Of two connections that collide the one stays that was dialled by the end with the higher router ID, and the other is told (RFC 4271 section 6.8).
func TestCollision(t *testing.T) {
	t.Parallel()
	for i, theirs := range []string{"9.9.9.9", "200.0.0.1"} {
		id, port := netip.MustParseAddr(theirs), rawPort+3+2*uint16(i)
		t.Run(theirs, func(t *testing.T) {
			t.Parallel()
			loopback(t)
			listener, err := net.Listen("tcp", netip.AddrPortFrom(two, port+1).String())
			must(t, err)
			defer func() { _ = listener.Close() }()
			n := rawNeighbour(port + 1)
			n.Passive = false
			s, h := speakTo(t, port, n)
			c, err := listener.Accept()
			must(t, err)
			defer func() { _ = c.Close() }()
			dialledHere := &raw{t, c}
			kind, _, err := dialledHere.read() // before that its dialling may be given up for the other one
			must(t, err)
			if kind != 1 {
				t.Fatalf("message %d, not an OPEN", kind)
			}
			dialledThere := dial(t, port)
			dialledThere.write(openMessage(90, id))
			dialledHere.write(openMessage(90, id))
			winner, loser := dialledThere, dialledHere
			if id.Less(one) {
				winner, loser = dialledHere, dialledThere
			}
			if code, subcode, err := loser.told(); err != nil || code != 6 || subcode != 7 {
				t.Errorf("the loser is told %d/%d, %v; want 6/7", code, subcode, err)
			}
			winner.write(rawMessage(4))
			l := &live{t: t}
			l.awaitUp(s, h, two, false)
			// One that comes while there is a session loses in any case.
			late := dial(t, port)
			late.write(openMessage(90, id))
			if code, subcode, err := late.told(); err != nil || code != 6 || subcode != 7 {
				t.Errorf("a late one is told %d/%d, %v; want 6/7", code, subcode, err)
			}
			if n := s.Neighbours()[0]; !n.Established || n.Flaps != 0 {
				t.Errorf("the neighbour is %+v", n)
			}
		})
	}
}
