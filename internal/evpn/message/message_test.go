package message_test

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"github.com/selvage/selvage/internal/evpn/message"
)

// message is one with this body.
func whole(kind uint8, body []byte) []byte {
	m := slices.Repeat([]byte{0xff}, 16)
	return append(append(binary.BigEndian.AppendUint16(m, uint16(message.HeaderLen+len(body))), kind), body...)
}

func update(withdrawn, attrs, nlri []byte) []byte {
	b := append(binary.BigEndian.AppendUint16(nil, uint16(len(withdrawn))), withdrawn...)
	return whole(message.Update, append(append(binary.BigEndian.AppendUint16(b, uint16(len(attrs))), attrs...), nlri...))
}

func attr(flags, t uint8, value ...byte) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{flags | 0x10, t}, uint16(len(value))), value...)
}

func octets(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func open(hold, as uint16, capabilities ...byte) []byte {
	b := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16([]byte{4}, as), hold)
	b = append(b, 192, 0, 2, 2, uint8(len(capabilities)+2), 2, uint8(len(capabilities)))
	return whole(message.Open, append(b, capabilities...))
}

var (
	multiprotocol = []byte{1, 4, 0, 1, 0, 1, 1, 4, 0, 2, 0, 1, 1, 4, 0, 25, 0, 70}
	fourOctets    = []byte{65, 4, 0, 0, 0xfd, 0xe8}
	agreed        = map[bgp.Family]bgp.BGPAddPathMode{bgp.RF_EVPN: 0, bgp.RF_IPv4_UC: 0, bgp.RF_IPv6_UC: 0}
)

// session is a filter whose neighbour has sent its OPEN, and what it discarded.
type session struct {
	t      *testing.T
	filter *message.Filter
	message.Config
	twoOctet  bool
	discarded map[string]int
}

func newSession(t *testing.T, external, twoOctet bool, families ...message.Family) *session {
	if families == nil {
		families = []message.Family{message.EVPN, message.IPv4, message.IPv6}
	}
	s := &session{t: t, twoOctet: twoOctet, discarded: map[string]int{}}
	s.Config = message.Config{Families: families, External: external, AS: 65000, RouterID: netip.MustParseAddr("192.0.2.1"),
		Discard: func(d message.Discard) { s.discarded[d.What] += d.Routes }}
	s.filter = message.New(s.Config)
	capabilities := slices.Clone(multiprotocol)
	if !twoOctet {
		capabilities = append(capabilities, fourOctets...)
	}
	if _, err := s.filter.Read(nil, open(90, 65000, capabilities...)); err != nil {
		t.Fatal(err)
	}
	return s
}

// passed is what GoBGP reads after the filter: routes by their text, with a minus those that are withdrawn.
func (s *session) passed(m []byte) (routes []string, n *message.Notification) {
	s.t.Helper()
	out, err := s.filter.Read(nil, slices.Clone(m))
	if errors.As(err, &n) {
		return nil, n
	}
	for len(out) > 0 {
		length := int(binary.BigEndian.Uint16(out[16:]))
		parsed, err := bgp.ParseBGPMessage(out[:length], &bgp.MarshallingOption{Use2ByteAS: s.twoOctet, ExtendedMessage: true})
		if err != nil {
			s.t.Fatalf("GoBGP refuses %x: %v", out[:length], err)
		}
		if u, ok := parsed.Body.(*bgp.BGPUpdate); ok {
			if ok, err := bgp.ValidateUpdateMsg(u, agreed, s.External, false, false); !ok {
				s.t.Fatalf("GoBGP refuses %x: %v", out[:length], err)
			}
			routes = append(routes, routesOf(u)...)
		}
		out = out[length:]
	}
	return routes, nil
}

func routesOf(u *bgp.BGPUpdate) (routes []string) {
	if eor, family := u.IsEndOfRib(); eor {
		return []string{"end of " + family.String()}
	}
	for _, w := range u.WithdrawnRoutes {
		routes = append(routes, "-"+w.NLRI.String())
	}
	for _, a := range u.PathAttributes {
		switch a := a.(type) {
		case *bgp.PathAttributeMpUnreachNLRI:
			for _, w := range a.Value {
				routes = append(routes, "-"+w.NLRI.String())
			}
		case *bgp.PathAttributeMpReachNLRI:
			for _, r := range a.Value {
				routes = append(routes, r.NLRI.String())
			}
		}
	}
	for _, r := range u.NLRI {
		routes = append(routes, r.NLRI.String())
	}
	return routes
}

const (
	rd    = "0001c00002020007"
	esi   = "00000000000000000000"
	tag   = "00000000"
	host  = rd + esi + tag + "30 020000000105 20 0a000a05 00271a"
	flood = rd + tag + "20 c0000202"
	net   = rd + esi + tag + "18 0a4d0000 00000000 00c3b3"
)

// evpn is a list of one route.
func evpn(t *testing.T, kind uint8, body string) []byte {
	b := octets(t, body)
	return append([]byte{kind, uint8(len(b))}, b...)
}

func reach(nlri ...byte) []byte {
	return attr(0x80, 14, append([]byte{0, 25, 70, 4, 192, 0, 2, 2, 0}, nlri...)...)
}

func unreach(nlri ...byte) []byte { return attr(0x80, 15, append([]byte{0, 25, 70}, nlri...)...) }

var (
	origin    = attr(0x40, 1, 0)
	path      = attr(0x40, 2)
	localPref = attr(0x40, 5, 0, 0, 0, 100)
	usual     = slices.Concat(origin, path, localPref)
)

const (
	hostText = "[type:macadv][rd:192.0.2.2:7][etag:0][mac:02:00:00:00:01:05][ip:10.0.10.5]"
	netText  = "[type:Prefix][rd:192.0.2.2:7][etag:0][prefix:10.77.0.0/24]"
)

// A route of each type, announced and withdrawn, leaves the session and the good route beside it alone.
func TestEachRouteType(t *testing.T) {
	for kind := range 256 {
		used := kind == 2 || kind == 3 || kind == 5
		s := newSession(t, false, false)
		odd := evpn(t, uint8(kind), rd+tag+"0000 c0000202 00")
		good := evpn(t, 5, net)
		got, n := s.passed(update(nil, slices.Concat(reach(slices.Concat(odd, good)...), usual), nil))
		if n != nil || !slices.Equal(got, []string{netText}) {
			t.Errorf("type %d: %q, %v", kind, got, n)
		}
		if got, n = s.passed(update(nil, unreach(slices.Concat(odd, good)...), nil)); n != nil || !slices.Equal(got, []string{"-" + netText}) {
			t.Errorf("type %d withdrawn: %q, %v", kind, got, n)
		}
		what := fmt.Sprintf("EVPN route type %d", kind)
		if used {
			what = "malformed " + what
		}
		if s.discarded[what] != 2 {
			t.Errorf("type %d: discarded %v", kind, s.discarded)
		}
		// Alone it is no End-of-RIB.
		if got, n = s.passed(update(nil, unreach(odd...), nil)); n != nil || len(got) != 0 {
			t.Errorf("type %d withdrawn alone: %q, %v", kind, got, n)
		}
	}
}

// A route that is cut, or longer than its type, is withdrawn as soon as its key is there, and the one after it is good. One that is cut
// while its length says otherwise leaves no way to find the next one.
func TestEachTruncation(t *testing.T) {
	for _, c := range []struct {
		kind        uint8
		body        string
		key         int // octets up to the end of the key, 0: any other length hides it
		text        string
		alsoLengths []int
	}{
		{2, host, 34, hostText, []int{37, 40}},
		{3, flood, 17, "[type:multicast][rd:192.0.2.2:7][etag:0][ip:192.0.2.2]", []int{17}},
		{5, net, 0, netText, []int{34}},
	} {
		whole := append(octets(t, c.body), make([]byte, 30)...)
		for n := range whole {
			if c.kind == 5 && n == 58 {
				continue // one of IPv6
			}
			s := newSession(t, false, false)
			route := append([]byte{c.kind, uint8(n)}, whole[:n]...)
			var want []string
			switch {
			case slices.Contains(c.alsoLengths, n):
				want = []string{c.text}
			case c.key > 0 && n >= c.key:
				want = []string{"-" + c.text}
			}
			good := evpn(t, 5, strings.Replace(net, "0a4d", "0a4e", 1))
			text := strings.Replace(netText, "10.77", "10.78", 1)
			got, _ := s.passed(update(nil, slices.Concat(reach(append(slices.Clone(route), good...)...), usual), nil))
			if want = append(want, text); !slices.Equal(sorted(got), sorted(want)) {
				t.Errorf("type %d of %d octets: %q, want %q", c.kind, n, got, want)
			}
			if n == 0 || n > len(octets(t, c.body)) {
				continue
			}
			cut := append([]byte{c.kind, uint8(n)}, whole[:n-1]...)
			for what, m := range map[string][]byte{"announced": update(nil, slices.Concat(reach(cut...), usual), nil), "withdrawn": update(nil, unreach(cut...), nil)} {
				if _, n := s.passed(m); n == nil || n.Code != 3 || n.Subcode != 10 {
					t.Errorf("type %d, its length more than the list, %s: %+v", c.kind, what, n)
				}
			}
		}
	}
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}

// What is wrong with an attribute has the route withdrawn, or is left out (RFC 7606 section 7), whatever else is with it.
func TestEachAttribute(t *testing.T) {
	nd := octets(t, "0608 01 0000000000")
	odd := octets(t, "0655000000000000")
	as := func(list ...uint32) (b []byte) {
		b = []byte{2, uint8(len(list))}
		for _, a := range list {
			b = binary.BigEndian.AppendUint32(b, a)
		}
		return b
	}
	good := "good"
	for _, c := range []struct {
		name     string
		external bool
		attrs    []byte
		want     string // what is counted; good: the route is used
		also     string // and is counted
	}{
		{"usual", false, usual, good, ""},
		{"unknown communities", false, slices.Concat(usual, attr(0xc0, 16, slices.Concat(odd, nd)...)), good, ""},
		{"unknown communities and ORIGIN 9", false, slices.Concat(attr(0x40, 1, 9), path, localPref, attr(0xc0, 16, odd...)), "malformed ORIGIN", ""},
		{"ORIGIN of nothing", false, slices.Concat(attr(0x40, 1), path, localPref), "malformed ORIGIN", ""},
		{"no ORIGIN", false, slices.Concat(path, localPref), "malformed ORIGIN", ""},
		{"no AS_PATH", false, slices.Concat(origin, localPref), "malformed AS_PATH", ""},
		{"AS_PATH that is cut", false, slices.Concat(origin, attr(0x40, 2, 2, 1, 0, 0), localPref), "malformed AS_PATH", ""},
		{"AS_PATH with an empty segment", false, slices.Concat(origin, attr(0x40, 2, 2, 0), localPref), "malformed AS_PATH", ""},
		{"AS_PATH with a confederation", false, slices.Concat(origin, attr(0x40, 2, 3, 1, 0, 0, 0, 7), localPref), "malformed AS_PATH", ""},
		{"AS_PATH with AS 0", false, slices.Concat(origin, attr(0x40, 2, as(1, 0)...), localPref), "malformed AS_PATH", ""},
		{"AS_PATH with this AS", false, slices.Concat(origin, attr(0x40, 2, as(1, 65000)...), localPref), good, ""},
		{"AS_PATH with this AS and a cut segment", false, slices.Concat(origin, attr(0x40, 2, append(as(65000), 2, 255)...), localPref), "malformed AS_PATH", ""},
		{"AS_PATH with this AS 510 times", false, slices.Concat(origin, attr(0x40, 2, slices.Repeat(as(slices.Repeat([]uint32{65000}, 255)...), 2)...), localPref), "malformed AS_PATH", ""},
		{"no LOCAL_PREF", false, slices.Concat(origin, path), "malformed LOCAL_PREF", ""},
		{"no LOCAL_PREF of another AS", true, slices.Concat(origin, path), good, ""},
		{"LOCAL_PREF of 2 octets", false, slices.Concat(origin, path, attr(0x40, 5, 0, 1)), "malformed LOCAL_PREF", ""},
		{"LOCAL_PREF of 2 octets of another AS", true, slices.Concat(origin, path, attr(0x40, 5, 0, 1)), good, ""},
		{"COMMUNITIES of 3 octets", false, slices.Concat(usual, attr(0xc0, 8, 1, 2, 3)), "malformed COMMUNITIES", ""},
		{"EXTENDED COMMUNITIES of 9 octets", false, slices.Concat(usual, attr(0xc0, 16, append(nd, 1)...)), "malformed EXTENDED COMMUNITIES", ""},
		{"LARGE_COMMUNITY of 4 octets", false, slices.Concat(usual, attr(0xc0, 32, 1, 2, 3, 4)), "malformed LARGE_COMMUNITY", ""},
		{"PMSI of 4 octets", false, slices.Concat(usual, attr(0xc0, 22, 0, 6, 0, 0)), "malformed PMSI_TUNNEL", ""},
		{"wrong flags", false, slices.Concat(attr(0x80, 1, 0), path, localPref), "malformed ORIGIN", ""},
		{"unknown well-known", false, slices.Concat(usual, attr(0x40, 99, 1)), "malformed attribute 99", ""},
		{"unknown optional", false, slices.Concat(usual, attr(0xc0, 99, 1)), good, ""},
		{"ORIGIN twice", false, slices.Concat(usual, attr(0x40, 1, 9)), good, ""},
		{"AGGREGATOR of 3 octets", false, slices.Concat(usual, attr(0xc0, 7, 1, 2, 3)), good, "malformed AGGREGATOR"},
		{"AS4_AGGREGATOR of 7 octets", false, slices.Concat(usual, attr(0xc0, 18, 1, 2, 3, 4, 5, 6, 7)), good, "malformed AS4_AGGREGATOR"},
		{"an attribute longer than all", false, append(slices.Clone(usual), 0x80, 4, 200, 1), "malformed attributes", ""},
	} {
		s := newSession(t, c.external, false)
		got, n := s.passed(update(nil, slices.Concat(reach(evpn(t, 2, host)...), c.attrs), nil))
		want := hostText
		if c.want != good {
			want = "-" + hostText
		}
		if n != nil || !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, %v; want %q", c.name, got, n, want)
		}
		if _, counted := s.discarded[c.want]; counted != (c.want != good) {
			t.Errorf("%s: discarded %v", c.name, s.discarded)
		}
		if _, counted := s.discarded[c.also]; c.also != "" && !counted {
			t.Errorf("%s: discarded %v", c.name, s.discarded)
		}
	}
}

// A route that this edge announced comes back as none; in the family of the fields too.
func TestOwnRouteComesBack(t *testing.T) {
	s := newSession(t, false, false)
	attrs := slices.Concat(usual, attr(0x40, 3, 192, 0, 2, 9), attr(0x80, 9, 192, 0, 2, 1))
	got, n := s.passed(update(nil, attrs, octets(t, "180a0500")))
	if n != nil || !slices.Equal(got, []string{"-10.5.0.0/24"}) {
		t.Errorf("%q, %v", got, n)
	}
}

// What is of a family that was not agreed on is not read; End-of-RIB and both families in one message are.
func TestFamilies(t *testing.T) {
	hop := attr(0x40, 3, 192, 0, 2, 9)
	for _, c := range []struct {
		name     string
		families []message.Family
		message  []byte
		want     []string
		counted  string
	}{
		{"IPv4 not agreed on", []message.Family{message.EVPN}, update(nil, slices.Concat(usual, hop), octets(t, "180a0500")), nil, "family 1/1"},
		{"IPv4 not agreed on, withdrawn, not even a prefix", []message.Family{message.EVPN}, update([]byte{200}, nil, nil), nil, "family 1/1"},
		{"VPNv4", nil, update(nil, slices.Concat(attr(0x80, 14, 0, 1, 128, 12, 1, 2), usual), nil), nil, "family 1/128"},
		{"VPNv4 withdrawn", nil, update(nil, attr(0x80, 15, 0, 1, 128, 12, 1, 2), nil), nil, "family 1/128"},
		{"unknown AFI", nil, update(nil, slices.Concat(attr(0x80, 14, 0x40, 4, 71), usual), nil), nil, "family 16388/71"},
		{"End-of-RIB", nil, update(nil, nil, nil), []string{"end of ipv4-unicast"}, ""},
		{"End-of-RIB of EVPN", nil, update(nil, unreach(), nil), []string{"end of l2vpn-evpn"}, ""},
		{"End-of-RIB of what was not agreed on", []message.Family{message.EVPN}, update(nil, nil, nil), nil, ""},
		{"empty MP_UNREACH beside others", nil, update(nil, slices.Concat(unreach(), usual), nil), nil, ""},
		{"both", nil, update(octets(t, "100a06"), slices.Concat(reach(evpn(t, 5, net)...), usual, hop), octets(t, "180a0501 180a0502")),
			[]string{"-10.6.0.0/16", "10.5.1.0/24", "10.5.2.0/24", netText}, ""},
		{"host bits", nil, update(nil, slices.Concat(usual, hop), octets(t, "110a05ff")), []string{"10.5.128.0/17"}, ""},
		{"NEXT_HOP of a group", nil, update(nil, slices.Concat(usual, attr(0x40, 3, 224, 0, 0, 1)), octets(t, "180a0501")), []string{"-10.5.1.0/24"}, "malformed NEXT_HOP"},
		{"both, malformed", nil, update(nil, slices.Concat(reach(evpn(t, 5, net)...), path, localPref, hop), octets(t, "180a0501")),
			[]string{"-10.5.1.0/24", "-" + netText}, "malformed ORIGIN"},
	} {
		s := newSession(t, false, false, c.families...)
		got, n := s.passed(c.message)
		if n != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v; want %q", c.name, got, n, c.want)
		}
		if _, counted := s.discarded[c.counted]; c.counted != "" && !counted || c.counted == "" && len(s.discarded) > 0 {
			t.Errorf("%s: discarded %v", c.name, s.discarded)
		}
	}
}

// Where the routes of a message cannot be told apart RFC 7606 ends the session.
func TestUnreadableEndsTheSession(t *testing.T) {
	hop := attr(0x40, 3, 192, 0, 2, 9)
	for _, c := range []struct {
		name    string
		message []byte
		subcode uint8
	}{
		{"withdrawn routes longer than all", whole(message.Update, []byte{0, 9, 0, 0}), 1},
		{"attributes longer than all", whole(message.Update, []byte{0, 0, 0, 9}), 1},
		{"prefix of 33 bits", update(nil, slices.Concat(usual, hop), []byte{33, 10, 0, 0, 0, 0}), 10},
		{"MP_REACH twice", update(nil, slices.Concat(reach(), reach(), usual), nil), 1},
		{"next hop of 5 octets", update(nil, slices.Concat(attr(0x80, 14, 0, 25, 70, 5, 1, 2, 3, 4, 5, 0), usual), nil), 9},
		{"MP_REACH of 2 octets", update(nil, slices.Concat(attr(0x80, 14, 0, 25), usual), nil), 9},
		{"malformed without a route", update(nil, slices.Concat(attr(0x40, 1, 9), path), nil), 1},
	} {
		got, n := newSession(t, false, false).passed(c.message)
		if n == nil || n.Code != 3 || n.Subcode != c.subcode || len(n.Message()) < 21 {
			t.Errorf("%s: %q, %+v; want 3/%d", c.name, got, n, c.subcode)
		}
	}
}

// Hold time 0 and AS 0 are refused; odd capabilities are for GoBGP to judge.
func TestOpen(t *testing.T) {
	for _, c := range []struct {
		name          string
		message       []byte
		code, subcode uint8
	}{
		{"usual", open(90, 65000, multiprotocol...), 0, 0},
		{"hold time 0", open(0, 65000, multiprotocol...), 2, 6},
		{"AS 0", open(90, 0, fourOctets...), 2, 2},
		{"cut capability", open(90, 65000, 65, 9, 1), 0, 0},
		{"short", whole(message.Open, []byte{4, 0}), 0, 0},
	} {
		_, err := message.New(message.Config{}).Read(nil, c.message)
		var n *message.Notification
		if errors.As(err, &n) != (c.code != 0) || n != nil && (n.Code != c.code || n.Subcode != c.subcode) {
			t.Errorf("%s: %+v, want %d/%d", c.name, n, c.code, c.subcode)
		}
	}
	f := message.New(message.Config{Families: []message.Family{message.EVPN}})
	long := append([]byte{4, 0xfd, 0xe8, 0, 90, 192, 0, 2, 2, 255, 255, 0, 9, 2, 0, 6}, 1, 4, 0, 25, 0, 70) // RFC 9072
	if _, err := f.Read(nil, whole(message.Open, long)); err != nil || f.ID() != netip.MustParseAddr("192.0.2.2") {
		t.Errorf("extended parameters: %v, %s", err, f.ID())
	}
	if out, err := f.Read(nil, update(nil, unreach(), nil)); err != nil || out[18] != message.Update {
		t.Errorf("a family of extended parameters is not agreed on: %x, %v", out, err)
	}
}

// A header that no message can follow goes to GoBGP as it is.
func TestReadable(t *testing.T) {
	f := message.New(message.Config{})
	for n, want := range map[int]bool{0: false, 18: false, 19: true, 4096: true, 4097: false, 65535: false} {
		h := whole(message.Update, nil)
		binary.BigEndian.PutUint16(h[16:], uint16(n))
		if got := f.Readable(h); got != want {
			t.Errorf("%d octets: %v", n, got)
		}
	}
	if _, err := f.Read(nil, open(90, 65000, 6, 0)); err != nil {
		t.Fatal(err)
	}
	h := whole(message.Update, nil)
	binary.BigEndian.PutUint16(h[16:], 65535)
	if !f.Readable(h) {
		t.Error("extended messages are not readable after both offered them")
	}
}

// FuzzUpdate: of whatever an UPDATE contains GoBGP gets what it can read, or the session ends by a NOTIFICATION for UPDATEs. What it
// gets is no longer than a message, and not many times the length of the UPDATE.
func FuzzUpdate(f *testing.F) {
	t := &testing.T{}
	hop := attr(0x40, 3, 192, 0, 2, 9)
	for _, m := range [][]byte{
		update(nil, slices.Concat(reach(slices.Concat(evpn(t, 2, host), evpn(t, 3, flood), evpn(t, 5, net), evpn(t, 6, net))...), usual, attr(0xc0, 16, 6, 8, 1, 0, 0, 0, 0, 0)), nil),
		update(octets(t, "100a06"), slices.Concat(usual, hop, attr(0xc0, 17, 2, 1, 0, 0, 0, 7), attr(0xc0, 7, 0, 7, 1, 2, 3, 4)), octets(t, "180a0501")),
		update(nil, slices.Concat(attr(0x80, 14, octets(t, "0002 01 10 20010db8000000000000000000000002 00 4020010db800000000")...), usual, attr(0xc0, 22, 0, 6, 0, 39, 26, 192, 0, 2, 2)), nil),
		update(nil, unreach(evpn(t, 2, host)...), nil),
		update(nil, slices.Concat(reach(evpn(t, 2, strings.Replace(host, esi, "01010101010101010101", 1))...), usual), nil),
	} {
		f.Add(m[message.HeaderLen:], uint8(0))
		f.Add(m[message.HeaderLen:], uint8(3))
	}
	f.Fuzz(func(t *testing.T, body []byte, kind uint8) {
		if len(body) > 65535-message.HeaderLen {
			return
		}
		s := newSession(t, kind&1 != 0, kind&2 != 0)
		routes, n := s.passed(whole(message.Update, body))
		if n != nil && n.Code != 3 {
			t.Errorf("%+v", n)
		}
		if len(routes) > len(body)+1 {
			t.Errorf("%d routes of %d octets", len(routes), len(body))
		}
	})
}
