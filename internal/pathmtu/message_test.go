package pathmtu

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/checksum"
)

var (
	us4    = netip.MustParseAddr("192.0.2.1")
	them4  = netip.MustParseAddr("192.0.2.130")
	other4 = netip.MustParseAddr("192.0.2.66")
	us6    = netip.MustParseAddr("2001:db8:1::1")
	them6  = netip.MustParseAddr("2001:db8:2::2")
	other6 = netip.MustParseAddr("2001:db8:3::3")
)

// testProbe has sent two of its three requests.
func testProbe(remote netip.Addr) (pr *probe, requests [][]byte) {
	pr = &probe{family: familyOf(remote), remote: remote, id: 0xfffe, firstSeq: 0xffff, body: make([]byte, 100)}
	rand.Read(pr.body)
	return pr, [][]byte{pr.next(), pr.next()}
}

// ipPacket is a header without options and what it carries.
func ipPacket(f family, from, to netip.Addr, payload []byte) []byte {
	h := make([]byte, f.ipHeader)
	if f.is6() {
		h[0], h[6], h[7] = 6<<4, byte(f.protocol), 64
		binary.BigEndian.PutUint16(h[4:], uint16(len(payload)))
		copy(h[8:], from.AsSlice())
		copy(h[24:], to.AsSlice())
	} else {
		h[0], h[8], h[9] = 4<<4|5, 64, byte(f.protocol)
		binary.BigEndian.PutUint16(h[2:], uint16(len(h)+len(payload)))
		copy(h[12:], from.AsSlice())
		copy(h[16:], to.AsSlice())
	}
	return append(h, payload...)
}

func tooBig(f family, nextMTU int, quoted []byte) []byte {
	m := []byte{f.tooBig, f.tooBigCode, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint16(m[6:], uint16(nextMTU)) // of IPv6, the lower half of 32 bits
	return append(m, quoted...)
}

func reply(f family, request []byte) []byte {
	m := slices.Clone(request)
	m[0] = f.reply
	return m
}

// with is a copy of b that has v at an index.
func with(b []byte, index int, v byte) []byte {
	b = slices.Clone(b)
	b[index] = v
	return b
}

func TestOnlyOwnAnswersCount(t *testing.T) {
	for name, addrs := range map[string][3]netip.Addr{"IPv4": {us4, them4, other4}, "IPv6": {us6, them6, other6}} {
		t.Run(name, func(t *testing.T) {
			us, them, other := addrs[0], addrs[1], addrs[2]
			f := familyOf(us)
			pr, sent := testProbe(them)
			notSent := f.echo(pr.id, pr.firstSeq+2, pr.body)
			stale := f.echo(pr.id, pr.firstSeq-1, pr.body)
			quoted := ipPacket(f, us, them, sent[1])
			header := f.ipHeader
			for _, c := range []struct {
				name    string
				from    netip.Addr
				message []byte
				counts  bool
				want    verdict
			}{
				{"reply", them, reply(f, sent[0]), true, verdict{replied: true}},
				{"reply to the second try", them, reply(f, sent[1]), true, verdict{replied: true}},
				{"reply of another host", other, reply(f, sent[0]), false, verdict{}},
				{"reply with another id", them, with(reply(f, sent[0]), 5, 1), false, verdict{}},
				{"reply to a request not sent", them, reply(f, notSent), false, verdict{}},
				{"reply to a request before", them, reply(f, stale), false, verdict{}},
				{"reply with a code", them, with(reply(f, sent[0]), 1, 1), false, verdict{}},
				{"reply with another body", them, with(reply(f, sent[0]), 107, pr.body[99]+1), false, verdict{}},
				{"reply cut short", them, reply(f, sent[0])[:107], false, verdict{}},
				{"reply with more", them, append(reply(f, sent[0]), 0), false, verdict{}},
				{"own request", them, sent[0], false, verdict{}},

				{"too big", other, tooBig(f, 1400, quoted), true, verdict{nextMTU: 1400}},
				{"too big without the MTU", other, tooBig(f, 0, quoted), true, verdict{}},
				{"too big, quoted in part", other, tooBig(f, 1400, quoted[:header+8+provingBytes]), true, verdict{nextMTU: 1400}},
				{"too big, eight bytes quoted", other, tooBig(f, 1400, quoted[:header+8]), !f.is6(), verdict{nextMTU: 1400}},
				{"too big, seven bytes quoted", other, tooBig(f, 1400, quoted[:header+7]), false, verdict{}},
				{"too big, body quoted wrongly", other, tooBig(f, 1400, with(quoted, header+8, pr.body[0]+1)), false, verdict{}},
				{"too big, checksum quoted wrongly", other, tooBig(f, 1400, with(quoted, header+2, sent[1][2]+1)), f.is6(), verdict{nextMTU: 1400}},
				{"too big about another host", other, tooBig(f, 1400, ipPacket(f, us, other, sent[1])), false, verdict{}},
				{"too big about another's packet", other, tooBig(f, 1400, ipPacket(f, other, them, sent[1])), false, verdict{}},
				{"too big about another id", other, tooBig(f, 1400, with(quoted, header+5, 1)), false, verdict{}},
				{"too big about a request not sent", other, tooBig(f, 1400, ipPacket(f, us, them, notSent)), false, verdict{}},
				{"too big about a reply", other, tooBig(f, 1400, ipPacket(f, us, them, reply(f, sent[1]))), false, verdict{}},
				{"too big about another protocol", other, tooBig(f, 1400, with(quoted, map[bool]int{false: 9, true: 6}[f.is6()], 17)), false, verdict{}},
				{"too big about another version", other, tooBig(f, 1400, with(quoted, 0, 0x55)), false, verdict{}},
				{"another error", other, with(tooBig(f, 1400, quoted), 1, 1), false, verdict{}},
				{"nothing", other, nil, false, verdict{}},
			} {
				a, ok := f.parse(us, c.from, c.message)
				var got verdict
				if ok {
					got, ok = pr.classify(a)
				}
				if ok != c.counts || ok && got != c.want {
					t.Errorf("%s: %+v %v, want %+v %v", c.name, got, ok, c.want, c.counts)
				}
			}
		})
	}
}

// An ICMP message with extensions (RFC 4884) and IPv4 options are read past.
func TestQuotationsOfIPv4(t *testing.T) {
	f := familyOf(us4)
	pr, sent := testProbe(them4)
	quoted := ipPacket(f, us4, them4, sent[0])
	classify := func(message []byte) bool {
		a, ok := f.parse(us4, other4, message)
		if ok {
			_, ok = pr.classify(a)
		}
		return ok
	}
	extended := with(tooBig(f, 1400, append(slices.Clone(quoted[:28]), 0x20, 0, 0, 0)), 5, 28/4)
	if !classify(extended) {
		t.Error("an extended message about eight bytes of the request does not count")
	}
	options := slices.Concat(with(quoted[:20], 0, 4<<4|6), []byte{1, 1, 1, 0}, quoted[20:])
	if !classify(tooBig(f, 1400, options)) {
		t.Error("a quotation with IP options does not count")
	}
	for name, bad := range map[string][]byte{
		"a header length below 20":  with(quoted, 0, 4<<4|4),
		"a header longer than this": with(quoted[:28], 0, 4<<4|15),
		"a later fragment":          with(quoted, 7, 1),
	} {
		if classify(tooBig(f, 1400, bad)) {
			t.Errorf("a quotation with %s counts", name)
		}
	}
}

func TestHugeHintOfIPv6(t *testing.T) {
	f := familyOf(us6)
	_, sent := testProbe(them6)
	message := tooBig(f, 1400, ipPacket(f, us6, them6, sent[0]))
	a, ok := f.parse(us6, other6, with(message, 4, 0xff))
	if !ok || a.nextMTU != maxPacket {
		t.Errorf("MTU 0xff000578 is read as %d, want %d", a.nextMTU, maxPacket)
	}
}

// RFC 1071: with its checksum in place a message sums up to zero.
func TestChecksum(t *testing.T) {
	f := familyOf(us4)
	for _, size := range []int{0, 1, 2, 99, 65507} {
		body := make([]byte, size)
		rand.Read(body)
		if sum := checksum.Of(f.echo(1, 2, body)); sum != 0 {
			t.Errorf("a request with %d bytes of body sums up to %#x, want 0", size, sum)
		}
	}
}

// FuzzParse: whatever the bytes, parse does not panic, and what it returns is
// within them and no answer to a probe whose body they cannot know.
func FuzzParse(f *testing.F) {
	for _, addrs := range [][3]netip.Addr{{us4, them4, other4}, {us6, them6, other6}} {
		us, them := addrs[0], addrs[1]
		family := familyOf(us)
		_, sent := testProbe(them)
		quoted := ipPacket(family, us, them, sent[0])
		f.Add(us.Is6(), reply(family, sent[0]))
		f.Add(us.Is6(), tooBig(family, 1400, quoted))
		f.Add(us.Is6(), tooBig(family, 0, quoted[:family.ipHeader+icmpHeader]))
		f.Add(us.Is6(), with(tooBig(family, 1400, quoted), 5, 7))
	}
	f.Fuzz(func(t *testing.T, is6 bool, message []byte) {
		us, them := us4, them4
		if is6 {
			us, them = us6, them6
		}
		family := familyOf(us)
		a, ok := family.parse(us, them, message)
		if !ok {
			return
		}
		if len(a.body) > len(message)-icmpHeader || a.nextMTU < 0 || a.nextMTU > maxPacket {
			t.Errorf("%d bytes: body of %d, next MTU %d", len(message), len(a.body), a.nextMTU)
		}
		pr, _ := testProbe(them)
		if v, ok := pr.classify(a); ok && !a.tooBig {
			t.Errorf("%x counts as %+v without the body", message, v)
		}
	})
}
