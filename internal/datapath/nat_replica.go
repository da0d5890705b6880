package datapath

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// PutNATRecords takes sessions of other gateways over as replicas. One that is here too is
// brought up to date where the other gateway has seen more of it; one whose egress port
// is another's for the same peer, or that this gateway has given another port, is a
// conflict and left out. Those of routers or policies that this edge has not, and those
// for which there is no room, are neither.
func (se *NATSessions) PutNATRecords(records []NATRecord) (taken, conflicts int, err error) {
	if se.prog.cfg.Egress == nil {
		return 0, 0, nil
	}
	now, err := se.prog.kernel.Clock.Monotonic()
	if err != nil {
		return 0, 0, err
	}
	for i := range records {
		k, b, ok := se.fromRecord(&records[i], now)
		if !ok {
			continue
		}
		err := se.putReplica(&k, &b)
		if err == nil {
			err = errors.Join(se.putMapping(&k, &b), se.noteOver(&k, &b))
		}
		switch {
		case err == nil:
			taken++
		case errors.Is(err, errConflict):
			conflicts++
		case !isFull(err):
			return taken, conflicts, fmt.Errorf("write a replica: %w", err)
		}
	}
	return taken, conflicts, nil
}

// noteOver has a replica that is over make room, like other sessions.
func (se *NATSessions) noteOver(k *bpfCtKey, b *bpfNatSession) error {
	if !slices.Contains([]bpfCtState{bpfCtStateCT_STATE_TIME_WAIT, bpfCtStateCT_STATE_CLOSED}, ctState(k.Proto, bpfCtBits(b.Ct.Bits))) {
		return nil
	}
	if err := se.maps.NatOver.Put(nil, k); err != nil && !isFull(err) {
		return fmt.Errorf("note that a replica is over: %w", err)
	}
	return nil
}

// errConflict is that a session here and one of another gateway exclude each other.
var errConflict = errors.New("another session has its place")

// isFull reports whether a table had no room.
func isFull(err error) bool { return errors.Is(err, unix.E2BIG) || errors.Is(err, unix.ENOMEM) }

// fromRecord are the entries of a record here.
func (se *NATSessions) fromRecord(r *NATRecord, now uint64) (k bpfCtKey, b bpfNatSession, ok bool) {
	router, hasRouter := se.numbers.names.tagged[routerTags][r.Router]
	egress, hasEgress := se.numbers.names.tagged[egressTags][r.Policy]
	if !hasRouter || !hasEgress {
		return k, b, false
	}
	k = bpfCtKey{Zone: router, Proto: r.Proto, EchoDir: r.EchoDir, InsidePort: wire16(r.Inside.Port()), OutsidePort: wire16(r.Outside.Port())}
	k.Inside.W = wireAddr(r.Inside.Addr())
	if !r.IsMapping() {
		k.Outside.W = wireAddr(r.Outside.Addr())
	}
	b = bpfNatSession{
		Port: wire16(r.Egress.Port()), Egress: uint16(egress), Flags: uint32(r.Flags) | uint32(bpfNatSessionFlagsNAT_SESSION_REPLICA), ReplicatedNs: now,
		Ct: bpfCtEntry{
			SeenNs: ago(now, r.IdleNS), Born: bornAgo(now, r.AgeNS), NextSeq: r.NextSeq, Bits: r.Bits, Scale: r.Scale,
			Counters: [2]bpfCounter{fromCounters(r.Counters[0]), fromCounters(r.Counters[1])},
		},
	}
	b.Addr.W = wireAddr(r.Egress.Addr())
	if r.Via.IsValid() && r.Via != se.prog.cfg.TEPs[0] {
		b.Via.W = wireAddr(r.Via)
	}
	return k, b, true
}

func fromCounters(c Counters) bpfCounter { return bpfCounter{Packets: c.Packets, Bytes: c.Bytes} }

// returnKey is make_return_key of bpf/nat/nat_table.h.
func returnKey(k *bpfCtKey, b *bpfNatSession) bpfCtKey {
	back := *k
	back.Inside, back.InsidePort = b.Addr, b.Port
	if k.EchoDir != 0 && k.Outside != (bpfAddr{}) { // an echo has one identifier, and a mapping no destination
		back.OutsidePort = b.Port
	}
	return back
}

// returnOf is where it leads, from now on.
func returnOf(k *bpfCtKey, now uint64) bpfNatOrig {
	return bpfNatOrig{Addr: k.Inside, Port: k.InsidePort, InsertedS: uint16(now / uint64(time.Second))}
}

// sessionKey is undo_reverse_key of bpf/nat/nat_table.h.
func sessionKey(back bpfCtKey, o bpfNatOrig) bpfCtKey {
	back.Inside, back.InsidePort = o.Addr, o.Port
	if back.EchoDir != 0 && back.Outside != (bpfAddr{}) {
		back.OutsidePort = o.Port
	}
	return back
}

// isForwardedElsewhere reports whether a forward of this edge leads from the return to another host.
func (se *NATSessions) isForwardedElsewhere(back *bpfCtKey, o bpfNatOrig) bool {
	var f bpfPortForward
	at := bpfPortForwardKey{Router: back.Zone, Proto: back.Proto, Port: back.InsidePort, Addr: back.Inside}
	return se.maps.PortForwards.Lookup(at, &f) == nil && (f.Addr != o.Addr || f.Port != o.Port)
}

// putReplica puts the return first, as the programs do: it is what nobody else may have.
func (se *NATSessions) putReplica(k *bpfCtKey, b *bpfNatSession) error {
	back, origin := returnKey(k, b), returnOf(k, b.ReplicatedNs)
	if se.isForwardedElsewhere(&back, origin) {
		return errConflict
	}
	err := se.maps.NatReverse.Update(&back, &origin, ebpf.UpdateNoExist)
	if errors.Is(err, ebpf.ErrKeyExist) {
		var there bpfNatOrig
		if se.maps.NatReverse.Lookup(&back, &there) != nil || there.Addr != origin.Addr || there.Port != origin.Port {
			return errConflict
		}
		return se.putNATSession(k, b)
	}
	if err != nil {
		return err
	}
	if err := se.putNATSession(k, b); err != nil {
		return errors.Join(err, se.deleteReturn(&back))
	}
	return nil
}

// putMapping has the source port of an independent session have the same one for further
// peers too: mappings are not in the news.
func (se *NATSessions) putMapping(k *bpfCtKey, b *bpfNatSession) error {
	if bpfNatSessionFlags(b.Flags)&bpfNatSessionFlagsNAT_SESSION_INDEPENDENT == 0 {
		return nil
	}
	key, mapping := *k, *b
	key.Outside, key.OutsidePort = bpfAddr{}, 0
	mapping.Flags = uint32(bpfNatSessionFlagsNAT_SESSION_MAPPING | bpfNatSessionFlagsNAT_SESSION_REPLICA)
	err := se.putReplica(&key, &mapping)
	if errors.Is(err, errConflict) { // the peers that it has stay with it
		return nil
	}
	return err
}

// putNATSession writes a replica's session, whose return is there.
func (se *NATSessions) putNATSession(k *bpfCtKey, b *bpfNatSession) error {
	err := se.maps.NatSessions.Update(k, b, ebpf.UpdateNoExist)
	if !errors.Is(err, ebpf.ErrKeyExist) {
		return err
	}
	var there bpfNatSession
	if se.maps.NatSessions.Lookup(k, &there) != nil {
		return errConflict // it ends at this moment
	}
	same := there.Addr == b.Addr && there.Port == b.Port
	if !same && !isReplica(&there) { // this gateway's packets go by another port
		return errConflict
	}
	if same && !isBefore(there.Ct.SeenNs, b.Ct.SeenNs) {
		return nil
	}
	if same && !isReplica(&there) { // its packets go by the other gateway for a while
		b.Flags &^= uint32(bpfNatSessionFlagsNAT_SESSION_REPLICA)
		b.Ct.Bits |= there.Ct.Bits
	}
	if err := se.maps.NatSessions.Update(k, b, ebpf.UpdateExist); err != nil {
		return errConflict
	}
	if same {
		return nil
	}
	back := returnKey(k, &there)
	return se.deleteReturn(&back)
}

func isReplica(b *bpfNatSession) bool {
	return bpfNatSessionFlags(b.Flags)&bpfNatSessionFlagsNAT_SESSION_REPLICA != 0
}

// DeleteNATRecords forgets replicas that have ended at their gateway, and returns how many
// there were. What this gateway has seen packets of is its own, and stays.
func (se *NATSessions) DeleteNATRecords(records []NATRecord) (gone int, err error) {
	if se.prog.cfg.Egress == nil {
		return 0, nil
	}
	for i := range records {
		k, b, ok := se.fromRecord(&records[i], 0)
		if !ok {
			continue
		}
		ended, err := se.deleteReplica(&k, &b)
		if err != nil {
			return gone, err
		}
		if ended {
			gone++
		}
	}
	return gone, nil
}

func (se *NATSessions) deleteReplica(k *bpfCtKey, b *bpfNatSession) (ended bool, err error) {
	var there bpfNatSession
	if err := se.maps.NatSessions.Lookup(k, &there); err != nil {
		return false, ignoreMissing(err)
	}
	if !isReplica(&there) || there.Addr != b.Addr || there.Port != b.Port {
		return false, nil
	}
	if err := ignoreMissing(se.maps.NatSessions.Delete(k)); err != nil {
		return false, fmt.Errorf("delete a replica: %w", err)
	}
	back := returnKey(k, &there)
	return true, se.deleteReturn(&back)
}

func (se *NATSessions) deleteReturn(back *bpfCtKey) error {
	if err := ignoreMissing(se.maps.NatReverse.Delete(back)); err != nil {
		return fmt.Errorf("delete the return of a session: %w", err)
	}
	return nil
}

// ignoreMissing leaves out that an entry is gone, which the programs may have removed.
func ignoreMissing(err error) error {
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	return err
}
