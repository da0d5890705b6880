package datapath

import (
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// refCT is a connection as the reference keeps it. What there is of each direction is
// first from who opened it.
type refCT struct {
	query    refQuery // what the rules were asked
	policy   int
	seen     time.Duration
	born     time.Duration
	replied  bool // not TCP
	stream   bool // not TCP: it goes on
	pickedUp bool // TCP: open before it was seen
	reset    bool
	syn, ack [2]bool // ack: it has acknowledged the other's SYN
	fin      [2]bool
	next     [2]uint32 // sequence number behind the last in the window
	scale    [2]uint8
	packets  [2]uint64
}

const plainWindow = 65535

func (c *refCT) open() bool {
	return c.ack[0] && c.ack[1] && (c.pickedUp || c.syn[0] && c.syn[1])
}

// tcpState is a state's name as users see it.
func (c *refCT) tcpState() string {
	switch {
	case c.reset:
		return "closed"
	case !c.open():
		return "opening"
	case c.fin[0] && c.fin[1]:
		return "time-wait"
	case c.fin[0] || c.fin[1]:
		return "half-closed"
	}
	return "established"
}

func (c *refCT) timeout(proto uint8, all overlay.Timeouts) time.Duration {
	switch {
	case proto == pkttest.ProtoTCP:
		return map[string]time.Duration{
			"opening": all.Opening, "established": all.Established, "half-closed": all.HalfClosed,
			"time-wait": all.TimeWait, "closed": all.Closed,
		}[c.tcpState()]
	case proto == pkttest.ProtoICMP || proto == pkttest.ProtoICMPv6:
		return all.ICMP
	case c.stream:
		return all.UDPStream
	case c.replied:
		return all.UDPReplied
	}
	return all.UDP
}

// window is the largest that the receiver of a direction's segments can have offered.
func (c *refCT) window(way int) uint32 {
	switch {
	case c.pickedUp:
		return plainWindow << 14
	case c.scale[0] == pkttest.NoScale || c.scale[1] == pkttest.NoScale:
		return plainWindow
	}
	return plainWindow << min(c.scale[1-way], 14)
}

func (c *refCT) inWindow(seq uint32, way int) bool {
	ahead, behind := seq-c.next[way], c.next[way]-seq
	return min(ahead, behind) <= c.window(way)
}

// credible: the sender knows the other end's numbers, or exactly its own (RFC 5961 section 5).
func (c *refCT) credible(s pkttest.Segment, way int) bool {
	return s.Seq == c.next[way] || s.Flags&pkttest.ACK != 0 && c.inWindow(s.Ack, 1-way)
}

// acksSYN: the segment acknowledges the other end's SYN; with Fast Open its data too.
func (c *refCT) acksSYN(s pkttest.Segment, way int) bool {
	if s.Flags&pkttest.ACK == 0 {
		return false
	}
	return c.pickedUp || c.syn[1-way] && s.Ack-c.next[1-way] <= plainWindow
}

// begin is a connection's first segment.
func (c *refCT) begin(s pkttest.Segment) {
	c.next[0], c.scale = s.Next(), [2]uint8{pkttest.NoScale, pkttest.NoScale}
	if s.Flags&pkttest.SYN != 0 { // whether its data is taken is for the answer to say
		c.next[0] = s.Seq + 1
	}
	if s.Flags&(pkttest.SYN|pkttest.ACK) == pkttest.SYN {
		c.syn[0], c.scale[0] = true, s.Scale
		return
	}
	c.pickedUp, c.ack[0], c.fin[0] = true, true, s.Flags&pkttest.FIN != 0
}

// follow is a later segment. anew: a new connection takes the place of this one.
func (c *refCT) follow(s pkttest.Segment, way int, strict bool) (why string, anew bool) {
	switch {
	case s.Flags&pkttest.RST != 0:
		return c.followRST(s, way, strict), false
	case s.Flags&pkttest.SYN != 0:
		return "", c.followSYN(s, way)
	}
	if c.pickedUp && !c.ack[way] { // the first that is seen of it
		c.next[way] = s.Seq
	}
	c.ack[way] = c.ack[way] || c.acksSYN(s, way)
	// Before its SYN nothing is known of an end's numbers.
	if (c.syn[way] || c.pickedUp) && c.inWindow(s.Seq, way) && c.credible(s, way) {
		c.fin[way] = c.fin[way] || s.Flags&pkttest.FIN != 0
		// Until its SYN is acknowledged an end's number tells which ACK does that.
		if int32(s.Next()-c.next[way]) > 0 && (c.pickedUp || c.ack[1-way]) {
			c.next[way] = s.Next()
		}
	}
	return "", false
}

func (c *refCT) followRST(s pkttest.Segment, way int, strict bool) string {
	if c.pickedUp && !c.ack[way] { // nothing has been seen of it
		return ""
	}
	if !c.syn[way] && !c.pickedUp { // it refuses the SYN
		c.reset = c.reset || c.acksSYN(s, way)
		return ""
	}
	if !c.inWindow(s.Seq, way) {
		if strict {
			return "out-of-window"
		}
		return ""
	}
	c.reset = c.reset || s.Seq == c.next[way]
	return ""
}

func (c *refCT) followSYN(s pkttest.Segment, way int) (anew bool) {
	acks := s.Flags&pkttest.ACK != 0
	switch c.tcpState() {
	case "time-wait", "closed":
		return !acks
	case "opening":
	default:
		return false
	}
	if c.pickedUp || acks && !c.acksSYN(s, way) {
		return false
	}
	// Until its SYN is acknowledged an end may begin with another number.
	if !c.ack[1-way] {
		c.next[way], c.scale[way] = s.Seq+1, s.Scale
	}
	c.syn[way] = true
	c.ack[way] = c.ack[way] || acks
	return false
}
