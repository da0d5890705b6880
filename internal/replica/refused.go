package replica

import (
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Refusal is why a connection did not become one between gateways.
type Refusal string

// Refusals.
const (
	UnknownAddress Refusal = "unknown-address" // no member of a group with this port, or one that is dialed from here
	TooMany        Refusal = "too-many"        // handshakes are under way
	Timeout        Refusal = "timeout"         // of the handshake
	Closed         Refusal = "closed"          // by the other end, in the middle of the handshake
	OtherVersion   Refusal = "other-version"   // of the protocol or of records
	OtherKey       Refusal = "other-key"
	Malformed      Refusal = "malformed" // what came is no TLS, or is wrong in it
)

// Refusals lists them all.
func Refusals() []Refusal {
	return []Refusal{UnknownAddress, TooMany, Timeout, Closed, OtherVersion, OtherKey, Malformed}
}

// refused is the error of a connection that was refused.
type refused struct {
	why  Refusal
	text string
}

func (r *refused) Error() string { return r.text }

const (
	sameRelease = ": run the same release on all gateways"
	sameKey     = ": give all gateways of a group the same spec.egress.gateways[].replication.key"
)

var (
	errOtherVersion = &refused{OtherVersion, "it speaks another version of replication" + sameRelease}
	errOldBuild     = &refused{OtherVersion, "it runs an older build, which replicates without TLS: upgrade it" + sameRelease}
)

// explain says in words of ours why a handshake ended. Alerts are known by their text alone, which a test holds.
func explain(err error) error {
	var (
		known  *refused
		header tls.RecordHeaderError
	)
	alert := remoteAlert(err)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &header) && string(header.RecordHeader[:len(oldMagic)]) == oldMagic:
		return errOldBuild
	case errors.As(err, &header):
		return &refused{Malformed, "it does not speak TLS"}
	case alert == "tls: bad certificate":
		return &refused{OtherKey, "it refuses the key of this gateway" + sameKey}
	case strings.Contains(err.Error(), "application protocol") || strings.Contains(err.Error(), "protocol version"):
		return errOtherVersion
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &refused{Timeout, "it did not finish the handshake in " + shakeTimeout.String()}
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE):
		return &refused{Closed, "it closed the connection: is this gateway a member of the group there, with the same replication.port?"}
	}
	return &refused{Malformed, err.Error()}
}

// refusalOf is that of an error, "" for one of a connection that was not refused.
func refusalOf(err error) Refusal {
	var known *refused
	if errors.As(err, &known) {
		return known.why
	}
	return ""
}

// remoteAlert is the alert that the other end sent, "" where it sent none.
func remoteAlert(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		return op.Err.Error()
	}
	return ""
}

// Refused counts the connections that were refused, by reason, from the beginning.
func (r *Replicator) Refused() map[Refusal]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.refusals)
}

func (r *Replicator) countRefused(why Refusal) {
	r.mu.Lock()
	r.refusals[why]++
	r.mu.Unlock()
}

// strangersEvery is how often a line is logged about connections that belong to no link.
const strangersEvery = time.Minute

// refuse closes a connection that belongs to no link, or finds no place.
func (r *Replicator) refuse(c net.Conn, from netip.Addr, why Refusal) {
	c.Close()
	r.countRefused(why)
	now := time.Now()
	r.mu.Lock()
	log := now.Sub(r.strangers) >= strangersEvery
	if log {
		r.strangers = now
	}
	n := r.refusals[why]
	r.mu.Unlock()
	if log {
		r.Log.Warn("replication of sessions: connection refused", "from", from, "why", string(why), "count", n)
	}
}

// gate bounds the handshakes under way, all and from one address.
type gate struct {
	mu   sync.Mutex
	all  int
	from map[netip.Addr]int
}

// enter takes a place. Who got one gives it back by leave, once.
func (g *gate) enter(from netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all >= shakesMost || g.from[from] >= shakesOfOne {
		return false
	}
	g.all++
	g.from[from]++
	return true
}

func (g *gate) leave(from netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all--
	if g.from[from]--; g.from[from] == 0 {
		delete(g.from, from)
	}
}
