package pathmtu

import (
	"bytes"
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/checksum"
)

const (
	icmpHeader = 8  // bytes of an echo request or reply before its body
	ipv4Header = 20 // bytes without options
	ipv6Header = 40 // bytes without extension headers
	maxPacket  = 65535
	// provingBytes is how much of a body shows that whoever quotes it saw it.
	provingBytes = 16
)

// family is what differs between ICMP of IPv4 (RFC 792) and of IPv6 (RFC 4443).
type family struct {
	domain, protocol int
	ipHeader         int // bytes
	smallest         int // bytes; the least ceiling, which every link of the family can carry
	floor, base      int // bytes; MIN_PLPMTU and BASE_PLPMTU (RFC 8899 section 5.1.2)
	request, reply   byte
	tooBig           byte // the type of "too big for the next link"
	tooBigCode       byte
}

func familyOf(addr netip.Addr) family {
	if addr.Is4() {
		return family{
			domain: unix.AF_INET, protocol: unix.IPPROTO_ICMP, ipHeader: ipv4Header,
			smallest: 68, floor: 576, base: 1200,
			request: 8, reply: 0, tooBig: 3, tooBigCode: 4,
		}
	}
	return family{
		domain: unix.AF_INET6, protocol: unix.IPPROTO_ICMPV6, ipHeader: ipv6Header,
		smallest: 1280, floor: 1280, base: 1280,
		request: 128, reply: 129, tooBig: 2, tooBigCode: 0,
	}
}

// is6 also says that the kernel computes the checksums (RFC 3542 section 3.1)
// and that routers quote all that fits 1280 bytes (RFC 4443 section 2.4).
func (f family) is6() bool { return f.domain == unix.AF_INET6 }

// echo is an echo request. Its checksum stays zero for IPv6.
func (f family) echo(id, seq uint16, body []byte) []byte {
	m := make([]byte, icmpHeader, icmpHeader+len(body))
	m[0] = f.request
	binary.BigEndian.PutUint16(m[4:], id)
	binary.BigEndian.PutUint16(m[6:], seq)
	m = append(m, body...)
	if !f.is6() {
		binary.BigEndian.PutUint16(m[2:], checksum.Of(m))
	}
	return m
}

// answer is what a received ICMP message says about an echo request, before
// anything is known of that request.
type answer struct {
	remote   netip.Addr // whom the request was for
	id, seq  uint16
	tooBig   bool
	nextMTU  int    // bytes; of a tooBig that names it, else 0
	checksum uint16 // the request's, as a tooBig quotes it
	body     []byte // the reply's, or as much of the request's as a tooBig quotes
}

// parse reads an ICMP message to source that came from from. It is false for
// what is neither an echo reply nor a "too big" about an echo request of source.
func (f family) parse(source, from netip.Addr, message []byte) (answer, bool) {
	if len(message) < icmpHeader {
		return answer{}, false
	}
	kind, code, rest := message[0], message[1], message[icmpHeader:]
	switch {
	case kind == f.reply && code == 0:
		return answer{
			remote: from,
			id:     binary.BigEndian.Uint16(message[4:]),
			seq:    binary.BigEndian.Uint16(message[6:]),
			body:   rest,
		}, true
	case kind == f.tooBig && code == f.tooBigCode && f.is6():
		mtu := binary.BigEndian.Uint32(message[4:])
		return f.parseQuoted6(source, rest, int(min(mtu, maxPacket)))
	case kind == f.tooBig && code == f.tooBigCode:
		// What follows the quotation in an extended message is not of the
		// request (RFC 4884 section 4: its length in 32-bit words).
		if words := int(message[5]); words > 0 {
			rest = rest[:min(len(rest), 4*words)]
		}
		return f.parseQuoted4(source, rest, int(binary.BigEndian.Uint16(message[6:])))
	}
	return answer{}, false
}

func (f family) parseQuoted4(source netip.Addr, quoted []byte, nextMTU int) (answer, bool) {
	if len(quoted) < ipv4Header || quoted[0]>>4 != 4 {
		return answer{}, false
	}
	header := 4 * int(quoted[0]&0xf)
	fragmentOffset := binary.BigEndian.Uint16(quoted[6:]) & 0x1fff
	if header < ipv4Header || len(quoted) < header || fragmentOffset != 0 ||
		int(quoted[9]) != f.protocol || netip.AddrFrom4([4]byte(quoted[12:16])) != source {
		return answer{}, false
	}
	return f.parseRequest(netip.AddrFrom4([4]byte(quoted[16:20])), quoted[header:], nextMTU)
}

func (f family) parseQuoted6(source netip.Addr, quoted []byte, nextMTU int) (answer, bool) {
	if len(quoted) < ipv6Header || quoted[0]>>4 != 6 ||
		int(quoted[6]) != f.protocol || netip.AddrFrom16([16]byte(quoted[8:24])) != source {
		return answer{}, false
	}
	return f.parseRequest(netip.AddrFrom16([16]byte(quoted[24:40])), quoted[ipv6Header:], nextMTU)
}

func (f family) parseRequest(remote netip.Addr, request []byte, nextMTU int) (answer, bool) {
	if len(request) < icmpHeader || request[0] != f.request || request[1] != 0 {
		return answer{}, false
	}
	return answer{
		remote:   remote,
		id:       binary.BigEndian.Uint16(request[4:]),
		seq:      binary.BigEndian.Uint16(request[6:]),
		tooBig:   true,
		nextMTU:  nextMTU,
		checksum: binary.BigEndian.Uint16(request[2:]),
		body:     request[icmpHeader:],
	}, true
}

// probe is one size that is being asked about, by up to maxTries requests with
// the same random body.
type probe struct {
	family   family
	remote   netip.Addr
	id       uint16
	firstSeq uint16
	body     []byte
	// checksums are those of the requests sent so far.
	checksums []uint16
	verdicts  chan verdict // of capacity one: the first that counts
}

// verdict is what became of a size: a reply came, or it is too big.
type verdict struct {
	replied bool
	nextMTU int // bytes; a hint, or 0
}

// next is the request of another try.
func (p *probe) next() []byte {
	m := p.family.echo(p.id, p.firstSeq+uint16(len(p.checksums)), p.body)
	p.checksums = append(p.checksums, binary.BigEndian.Uint16(m[2:]))
	return m
}

// classify says whether an answer is to this probe. A reply has all of the body; a
// "too big" proves that its sender saw the request by quoting the body or, as
// IPv4 routers may quote eight bytes only (RFC 792), at least the checksum.
func (p *probe) classify(a answer) (verdict, bool) {
	try := int(a.seq - p.firstSeq) // modulo 65536
	if a.id != p.id || a.remote != p.remote || try >= len(p.checksums) {
		return verdict{}, false
	}
	if !a.tooBig {
		return verdict{replied: true}, bytes.Equal(a.body, p.body)
	}
	quoted := min(len(a.body), provingBytes)
	if p.family.is6() && quoted < provingBytes {
		return verdict{}, false
	}
	if !p.family.is6() && a.checksum != p.checksums[try] {
		return verdict{}, false
	}
	return verdict{nextMTU: a.nextMTU}, bytes.HasPrefix(p.body, a.body[:quoted])
}
