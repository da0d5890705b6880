package datapath

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/overlay"
)

// Connection is what conntrack of the firewall and NAT both keep of a connection.
type Connection struct {
	Proto         uint8
	Echo          bool   // an ICMP echo exchange
	State         string // one of StateNames
	Answered      bool
	AgeNS, IdleNS uint64   // since it began, and since its last packet
	Orig, Reply   Counters // from who opened it, and to them; packets come with delay
}

// Bytes are those of both directions.
func (c *Connection) Bytes() uint64 { return c.Orig.Bytes + c.Reply.Bytes }

// Packets are those of both directions.
func (c *Connection) Packets() uint64 { return c.Orig.Packets + c.Reply.Packets }

// bornShift is BORN_SHIFT of bpf/abi/conntrack.h.
const bornShift = 30

// ageNS is how old the connection is, in about seconds.
func (e *bpfCtEntry) ageNS(now uint64) uint64 {
	return uint64(max(int32(uint32(now>>bornShift)-e.Born), 0)) << bornShift
}

// bornAgo is ct_entry.born of what has this age.
func bornAgo(now, age uint64) uint32 { return uint32(int64(now-age) >> bornShift) }

func connection(k *bpfCtKey, e *bpfCtEntry, now uint64) Connection {
	bits := bpfCtBits(e.Bits)
	return Connection{
		Proto: k.Proto, Echo: k.EchoDir != 0, State: StateNames[ctState(k.Proto, bits)], Answered: isAnswered(k.Proto, bits),
		AgeNS: e.ageNS(now), IdleNS: since(now, e.SeenNs), Orig: toCounters(e.Counters[0]), Reply: toCounters(e.Counters[1]),
	}
}

// conntrackTable is one table of connections: the firewall's, or the sessions of NAT. Its
// maps have a V of each, by bpfCtKey. Its program in the kernel removes those that have
// expired (garbage collection), and counts the others in a G.
type conntrackTable[V, G any] struct {
	clock kernel.Clock
	what  string                                         // its entries, in errors
	maps  []kernel.Map                                   // none: this edge has no such table
	entry func(*V) *bpfCtEntry                           // what a V has of conntrack
	put   func(to kernel.Map, k []bpfCtKey, v []V) error // as far as there is room
	load  func() (*gcProgram, error)

	sweeping sync.Mutex
	gc       *gcProgram // nil before the first sweep
	stats    G          // of the last one
}

// gcProgram is the program that looks at every connection, and where it counts.
type gcProgram struct {
	program    kernel.Program
	result     kernel.Map
	portUsages kernel.Map // of NAT
}

func (g *gcProgram) close() error {
	errs := []error{g.program.Close(), g.result.Close()}
	if g.portUsages != nil {
		errs = append(errs, g.portUsages.Close())
	}
	return errors.Join(errs...)
}

func (t *conntrackTable[V, G]) close() error {
	gc := t.gc
	if gc == nil {
		return nil
	}
	t.gc = nil
	return gc.close()
}

// each calls do for every connection until it returns false. do must not keep k and v.
func (t *conntrackTable[V, G]) each(do func(k *bpfCtKey, v *V, now uint64) bool) error {
	if len(t.maps) == 0 {
		return nil
	}
	now, err := t.clock.Monotonic()
	if err != nil {
		return err
	}
	more := true
	for _, m := range t.maps {
		err := walkWhile(m, func(k *bpfCtKey, v *V) bool {
			more = do(k, v, now)
			return more
		})
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// sweep removes the connections that have expired, and counts the others. It looks at each
// of them, in the kernel.
func (t *conntrackTable[V, G]) sweep() (stats G, err error) {
	if len(t.maps) == 0 {
		return stats, nil
	}
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	if t.gc == nil {
		if t.gc, err = t.load(); err != nil {
			return stats, err
		}
	}
	ret, err := t.gc.program.Run(&ebpf.RunOptions{})
	if err == nil && ret != 0 {
		err = fmt.Errorf("it returned %d", ret)
	}
	if err != nil {
		return stats, fmt.Errorf("sweep the %s: %w", t.what, err)
	}
	if err := t.gc.result.Lookup(uint32(0), &stats); err != nil {
		return stats, fmt.Errorf("read what the sweep of the %s counted: %w", t.what, err)
	}
	t.stats = stats
	return stats, nil
}

// carry copies connections of a former map as far as there is room: all, or only those
// with a packet after a time that the map to does not know of yet.
func (t *conntrackTable[V, G]) carry(from, to kernel.Map, after uint64) error {
	keys, values := make([]bpfCtKey, 0, batch), make([]V, 0, batch)
	var errs []error
	flush := func() {
		if len(keys) > 0 {
			if err := t.put(to, keys, values); err != nil {
				errs = append(errs, fmt.Errorf("carry %s over to the map %s: %w", t.what, to, err))
			}
		}
		keys, values = keys[:0], values[:0]
	}
	err := walkWhile(from, func(k *bpfCtKey, v *V) bool {
		if after != 0 && !t.isNewer(to, k, v, after) {
			return true
		}
		keys, values = append(keys, *k), append(values, *v)
		if len(keys) == batch {
			flush()
		}
		return len(errs) == 0
	})
	flush()
	return errors.Join(append(errs, err)...)
}

func (t *conntrackTable[V, G]) isNewer(to kernel.Map, k *bpfCtKey, v *V, after uint64) bool {
	var there V
	seen := t.entry(v).SeenNs
	return !isBefore(seen, after) && (to.Lookup(k, &there) != nil || isBefore(t.entry(&there).SeenNs, seen))
}

// loadGC loads the program of a spec on the maps of this edge.
func (pr *programs) loadGC(load func() (*ebpf.CollectionSpec, error), program, result string) (*gcProgram, error) {
	spec, err := load()
	if err != nil {
		return nil, err
	}
	if err := pr.configure(spec); err != nil {
		return nil, err
	}
	objects, err := pr.loadUpon(spec, pr.maps())
	if err != nil {
		return nil, err
	}
	defer objects.Close()
	return &gcProgram{objects.TakeProgram(program), objects.TakeMap(result), objects.TakeMap(natGcMapPortUsages)}, nil
}

// trackConnections makes both tables, of the maps that are loaded.
func (d *Datapath) trackConnections() {
	ct, nat := &d.Firewall.connections, &d.NATSessions.table
	ct.clock, nat.clock = d.prog.kernel.Clock, d.prog.kernel.Clock
	ct.what, ct.put, ct.entry = "connections", putConnections, func(c *bpfCtEntry) *bpfCtEntry { return c }
	ct.load = func() (*gcProgram, error) {
		return d.prog.loadGC(loadConntrackGc, conntrackGcProgConntrackGc, conntrackGcMapCtGcResult)
	}
	nat.what, nat.put, nat.entry = "sessions", d.NATSessions.putSessions, func(s *bpfNatSession) *bpfCtEntry { return &s.Ct }
	nat.load = func() (*gcProgram, error) { return d.prog.loadGC(loadNatGc, natGcProgNatGc, natGcMapNatGcResult) }
	if d.prog.cfg.Firewall != nil {
		ct.maps = []kernel.Map{d.Firewall.maps.CtEstablished, d.Firewall.maps.CtHalfOpen}
	}
	if d.prog.cfg.Egress != nil {
		nat.maps = []kernel.Map{d.NATSessions.maps.NatSessions}
	}
}

// StateNames are those of the states of a connection, by enum conn_state.
var StateNames = [bpfCtStateCT_STATE_MAX]string{
	bpfCtStateCT_STATE_OPENING: "opening", bpfCtStateCT_STATE_ESTABLISHED: "established",
	bpfCtStateCT_STATE_HALF_CLOSED: "half-closed", bpfCtStateCT_STATE_TIME_WAIT: "time-wait",
	bpfCtStateCT_STATE_CLOSED: "closed", bpfCtStateCT_STATE_UDP: "unreplied",
	bpfCtStateCT_STATE_UDP_REPLIED: "replied", bpfCtStateCT_STATE_UDP_STREAM: "stream", bpfCtStateCT_STATE_ICMP: "icmp",
}

// ctState is conn_state of bpf/firewall/conntrack.h.
func ctState(proto uint8, bits bpfCtBits) bpfCtState {
	switch proto {
	case unix.IPPROTO_TCP:
		return tcpState(bits)
	case unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6:
		return bpfCtStateCT_STATE_ICMP
	}
	if bits&bpfCtBitsCT_STREAM != 0 {
		return bpfCtStateCT_STATE_UDP_STREAM
	}
	if bits&bpfCtBitsCT_REPLIED != 0 {
		return bpfCtStateCT_STATE_UDP_REPLIED
	}
	return bpfCtStateCT_STATE_UDP
}

func tcpState(bits bpfCtBits) bpfCtState {
	switch {
	case bits&bpfCtBitsCT_RST != 0:
		return bpfCtStateCT_STATE_CLOSED
	case !isAnswered(unix.IPPROTO_TCP, bits):
		return bpfCtStateCT_STATE_OPENING
	case bits.both(bpfCtBitsCT_FIN):
		return bpfCtStateCT_STATE_TIME_WAIT
	case bits&(bpfCtBitsCT_FIN|bpfCtBitsCT_FIN<<1) != 0:
		return bpfCtStateCT_STATE_HALF_CLOSED
	}
	return bpfCtStateCT_STATE_ESTABLISHED
}

// both reports whether a bit is set that each direction has for itself.
func (b bpfCtBits) both(bit bpfCtBits) bool { return b&bit != 0 && b&(bit<<1) != 0 }

// isAnswered is is_answered of bpf/firewall/conntrack.h.
func isAnswered(proto uint8, bits bpfCtBits) bool {
	if proto != unix.IPPROTO_TCP {
		return bits&bpfCtBitsCT_REPLIED != 0
	}
	return bits.both(bpfCtBitsCT_ACK) && (bits&bpfCtBitsCT_PICKED_UP != 0 || bits.both(bpfCtBitsCT_SYN))
}

// stateTimeouts are t by state.
func stateTimeouts(t overlay.Timeouts) [bpfCtStateCT_STATE_MAX]time.Duration {
	return [...]time.Duration{
		bpfCtStateCT_STATE_OPENING: t.Opening, bpfCtStateCT_STATE_ESTABLISHED: t.Established,
		bpfCtStateCT_STATE_HALF_CLOSED: t.HalfClosed, bpfCtStateCT_STATE_TIME_WAIT: t.TimeWait,
		bpfCtStateCT_STATE_CLOSED: t.Closed, bpfCtStateCT_STATE_UDP: t.UDP,
		bpfCtStateCT_STATE_UDP_REPLIED: t.UDPReplied, bpfCtStateCT_STATE_UDP_STREAM: t.UDPStream, bpfCtStateCT_STATE_ICMP: t.ICMP,
	}
}

// timeoutsNS is how the programs have them.
func timeoutsNS(t overlay.Timeouts) (ns [bpfCtStateCT_STATE_MAX]uint64, err error) {
	for state, timeout := range stateTimeouts(t) {
		if timeout <= 0 {
			return ns, fmt.Errorf("timeout of state %q is %s", StateNames[state], timeout)
		}
		ns[state] = uint64(timeout)
	}
	return ns, nil
}
