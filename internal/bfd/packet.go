// Package bfd finds out whether tunnel endpoints are alive: Bidirectional
// Forwarding Detection (RFC 5880) in asynchronous mode, over one hop (RFC 5881)
// or several (RFC 5883), without echo and authentication.
//
// Its one invariant: only a session that was up takes a pair of endpoints out of
// use. One that never answered is unknown and counts as usable, because many peers,
// the kernel's vxlan device among them, speak no BFD. Do not use it to find out
// how large a packet gets through; that is pathmtu.
package bfd

import (
	"encoding/binary"
	"time"
)

// sessionState is the state of a session, RFC 5880 section 4.1.
type sessionState uint8

const (
	adminDown sessionState = iota
	down
	initial
	up
)

func (s sessionState) String() string {
	return [...]string{"admin down", "down", "init", "up"}[s&3]
}

// diagnostic says why a session was last down, RFC 5880 section 4.1. In one that is up it
// says what Service does.
type diagnostic uint8

const (
	noDiagnostic         diagnostic = 0
	detectionTime        diagnostic = 1 // nothing arrived in time
	neighborDown         diagnostic = 3 // the other end signalled it
	pathDown             diagnostic = 5 // the local system knows that there is no way
	concatenatedPathDown diagnostic = 6
	adminDiagnostic      diagnostic = 7
	reversePathDown      diagnostic = 8 // of concatenated paths
)

// Reason names why a packet was dropped.
type Reason string

// The reasons, in the order of RFC 5880 section 6.8.6 and after those what RFC
// 5881 section 5 and RFC 5883 section 4 add.
const (
	Truncated       Reason = "truncated"
	BadVersion      Reason = "bad-version"
	BadLength       Reason = "bad-length"
	BadMultiplier   Reason = "bad-multiplier"
	Multipoint      Reason = "multipoint"
	NoDiscriminator Reason = "no-discriminator"
	NotStarting     Reason = "not-starting"
	Authenticated   Reason = "authenticated"
	NoSession       Reason = "no-session"
	WrongSender     Reason = "wrong-sender"
	TooFar          Reason = "too-far"
	WrongInterface  Reason = "wrong-interface"
)

// Reasons are all of them with what they mean.
var Reasons = []struct {
	Reason Reason
	Text   string
}{
	{Truncated, "shorter than the header or than the length field says"},
	{BadVersion, "not BFD version 1"},
	{BadLength, "length field below that of the header"},
	{BadMultiplier, "detection multiplier of zero"},
	{Multipoint, "multipoint bit set"},
	{NoDiscriminator, "sender's discriminator of zero"},
	{NotStarting, "no discriminator of ours in a session that is not down, and no known one of the sender"},
	{Authenticated, "authentication, which is not in use"},
	{NoSession, "no session with this discriminator or sender"},
	{WrongSender, "discriminator of the session with another endpoint"},
	{TooFar, "TTL too low: sent from farther away than the session allows"},
	{WrongInterface, "arrived at another interface than the session's"},
}

// The header of section 4.1 in bytes.
const (
	headerLen     = 24
	authHeaderLen = 2 // the least that follows with the authentication bit
	version       = 1
)

// The bits of the second byte.
const (
	pollBit       = 0x20
	finalBit      = 0x10
	authBit       = 0x04
	demandBit     = 0x02
	multipointBit = 0x01
)

// packet is a BFD control packet. Intervals are whole microseconds, up to 2³²-1.
type packet struct {
	state       sessionState
	diag        diagnostic
	poll, final bool
	demand      bool
	multiplier  uint8
	mine, yours uint32 // discriminators, as the sender sees it
	desiredTx   time.Duration
	requiredRx  time.Duration
}

// parse reads the payload of a UDP packet, and gives the reason why it is to be
// dropped or "".
func parse(b []byte) (packet, Reason) {
	if len(b) < headerLen {
		return packet{}, Truncated
	}
	length := int(b[3])
	p := packet{
		state: sessionState(b[1] >> 6), diag: diagnostic(b[0] & 0x1f),
		poll: b[1]&pollBit != 0, final: b[1]&finalBit != 0, demand: b[1]&demandBit != 0,
		multiplier: b[2],
		mine:       binary.BigEndian.Uint32(b[4:]), yours: binary.BigEndian.Uint32(b[8:]),
		desiredTx: microseconds(b[12:]), requiredRx: microseconds(b[16:]),
	}
	switch {
	case b[0]>>5 != version:
		return p, BadVersion
	case length < headerLen, b[1]&authBit != 0 && length < headerLen+authHeaderLen:
		return p, BadLength
	case length > len(b):
		return p, Truncated
	case p.multiplier == 0:
		return p, BadMultiplier
	case b[1]&multipointBit != 0:
		return p, Multipoint
	case p.mine == 0:
		return p, NoDiscriminator
	case p.yours == 0 && p.state != down && p.state != adminDown:
		return p, NotStarting
	case b[1]&authBit != 0:
		return p, Authenticated
	}
	return p, ""
}

func microseconds(b []byte) time.Duration {
	return time.Duration(binary.BigEndian.Uint32(b)) * time.Microsecond
}

// marshal is p on the wire. The echo interval is zero: there is no echo function.
func (p packet) marshal() []byte {
	b := make([]byte, headerLen)
	b[0] = version<<5 | byte(p.diag)
	b[1] = byte(p.state) << 6
	if p.poll {
		b[1] |= pollBit
	}
	if p.final {
		b[1] |= finalBit
	}
	if p.demand {
		b[1] |= demandBit
	}
	b[2], b[3] = p.multiplier, headerLen
	binary.BigEndian.PutUint32(b[4:], p.mine)
	binary.BigEndian.PutUint32(b[8:], p.yours)
	binary.BigEndian.PutUint32(b[12:], uint32(p.desiredTx/time.Microsecond))
	binary.BigEndian.PutUint32(b[16:], uint32(p.requiredRx/time.Microsecond))
	return b
}
