package datapath

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// PutBindings takes bindings of other gateways over as replicas. One that is here too is
// brought up to date where the other gateway has seen more of it; one whose egress port
// is another's for the same peer, or that this gateway has given another port, is a
// conflict and left out. Those of routers or policies that this edge has not, and those
// for which there is no room, are neither.
func (d *Datapath) PutBindings(records []BindingRecord) (taken, conflicts int, err error) {
	if d.cfg.Egress == nil {
		return 0, 0, nil
	}
	now, err := monotonicNS()
	if err != nil {
		return 0, 0, err
	}
	for i := range records {
		k, b, ok := d.fromRecord(&records[i], now)
		if !ok {
			continue
		}
		err := d.putReplica(&k, &b)
		if err == nil {
			err = d.putMapping(&k, &b)
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

// errConflict is that a binding here and one of another gateway exclude each other.
var errConflict = errors.New("another binding has its place")

// isFull reports whether a table had no room.
func isFull(err error) bool { return errors.Is(err, unix.E2BIG) || errors.Is(err, unix.ENOMEM) }

// fromRecord are the entries of a record here.
func (d *Datapath) fromRecord(r *BindingRecord, now uint64) (k edgeConnKey, b edgeBinding, ok bool) {
	router, hasRouter := d.names.tagged[routerTags][r.Router]
	egress, hasEgress := d.names.tagged[egressTags][r.Policy]
	if !hasRouter || !hasEgress {
		return k, b, false
	}
	k = edgeConnKey{End: router, Proto: r.Proto, Asker: r.Asker, InsidePort: wire16(r.Inside.Port()), OutsidePort: wire16(r.Outside.Port())}
	k.Inside.W = wireAddr(r.Inside.Addr())
	if !r.IsMapping() {
		k.Outside.W = wireAddr(r.Outside.Addr())
	}
	b = edgeBinding{
		Port: wire16(r.Egress.Port()), Egress: uint16(egress), Flags: uint32(r.Flags) | uint32(natsweepBindingFlagsBINDING_REPLICA), AnnouncedNs: now,
		Conn: edgeConn{
			SeenNs: ago(now, r.IdleNS), BornNs: ago(now, r.AgeNS), NextSeq: r.NextSeq, Bits: r.Bits, Scale: r.Scale,
			Counters: [2]edgeCounter{fromCounters(r.Counters[0]), fromCounters(r.Counters[1])},
		},
	}
	b.Addr.W = wireAddr(r.Egress.Addr())
	if r.Via.IsValid() && r.Via != d.cfg.TEPs[0] {
		b.Via.W = wireAddr(r.Via)
	}
	return k, b, true
}

func fromCounters(c Counters) edgeCounter { return edgeCounter{Packets: c.Packets, Bytes: c.Bytes} }

// returnKey is make_return_key of bpf/nat/nat_table.h.
func returnKey(k *edgeConnKey, b *edgeBinding) edgeConnKey {
	back := *k
	back.Inside, back.InsidePort = b.Addr, b.Port
	if k.Asker != 0 && k.Outside != (edgeAddr{}) { // an echo has one identifier, and a mapping no destination
		back.OutsidePort = b.Port
	}
	return back
}

// returnOf is where it leads.
func returnOf(k *edgeConnKey) edgeOrigin { return edgeOrigin{Addr: k.Inside, Port: k.InsidePort} }

// putReplica puts the return first, as the programs do: it is what nobody else may have.
func (d *Datapath) putReplica(k *edgeConnKey, b *edgeBinding) error {
	back, origin := returnKey(k, b), returnOf(k)
	err := d.objs.Returns.Update(&back, &origin, ebpf.UpdateNoExist)
	if errors.Is(err, ebpf.ErrKeyExist) {
		var there edgeOrigin
		if d.objs.Returns.Lookup(&back, &there) != nil || there != origin {
			return errConflict
		}
		return d.putBinding(k, b)
	}
	if err != nil {
		return err
	}
	if err := d.putBinding(k, b); err != nil {
		return errors.Join(err, d.deleteReturn(&back))
	}
	return nil
}

// putMapping has the source port of an independent binding have the same one for further
// peers too: mappings are not in the news.
func (d *Datapath) putMapping(k *edgeConnKey, b *edgeBinding) error {
	if natsweepBindingFlags(b.Flags)&natsweepBindingFlagsBINDING_INDEPENDENT == 0 {
		return nil
	}
	key, mapping := *k, *b
	key.Outside, key.OutsidePort = edgeAddr{}, 0
	mapping.Flags = uint32(natsweepBindingFlagsBINDING_MAPPING | natsweepBindingFlagsBINDING_REPLICA)
	err := d.putReplica(&key, &mapping)
	if errors.Is(err, errConflict) { // the peers that it has stay with it
		return nil
	}
	return err
}

// putBinding writes a replica's binding, whose return is there.
func (d *Datapath) putBinding(k *edgeConnKey, b *edgeBinding) error {
	err := d.objs.Bindings.Update(k, b, ebpf.UpdateNoExist)
	if !errors.Is(err, ebpf.ErrKeyExist) {
		return err
	}
	var there edgeBinding
	if d.objs.Bindings.Lookup(k, &there) != nil {
		return errConflict // it ends at this moment
	}
	same := there.Addr == b.Addr && there.Port == b.Port
	if !same && !isReplica(&there) { // this gateway's packets go by another port
		return errConflict
	}
	if same && !isBefore(there.Conn.SeenNs, b.Conn.SeenNs) {
		return nil
	}
	if same && !isReplica(&there) { // its packets go by the other gateway for a while
		b.Flags &^= uint32(natsweepBindingFlagsBINDING_REPLICA)
		b.Conn.Bits |= there.Conn.Bits
	}
	if err := d.objs.Bindings.Update(k, b, ebpf.UpdateExist); err != nil {
		return errConflict
	}
	if same {
		return nil
	}
	back := returnKey(k, &there)
	return d.deleteReturn(&back)
}

func isReplica(b *edgeBinding) bool {
	return natsweepBindingFlags(b.Flags)&natsweepBindingFlagsBINDING_REPLICA != 0
}

// DeleteBindings forgets replicas that have ended at their gateway, and returns how many
// there were. What this gateway has seen packets of is its own, and stays.
func (d *Datapath) DeleteBindings(records []BindingRecord) (gone int, err error) {
	if d.cfg.Egress == nil {
		return 0, nil
	}
	for i := range records {
		k, b, ok := d.fromRecord(&records[i], 0)
		if !ok {
			continue
		}
		ended, err := d.deleteReplica(&k, &b)
		if err != nil {
			return gone, err
		}
		if ended {
			gone++
		}
	}
	return gone, nil
}

func (d *Datapath) deleteReplica(k *edgeConnKey, b *edgeBinding) (ended bool, err error) {
	var there edgeBinding
	if err := d.objs.Bindings.Lookup(k, &there); err != nil {
		return false, ignoreMissing(err)
	}
	if !isReplica(&there) || there.Addr != b.Addr || there.Port != b.Port {
		return false, nil
	}
	if err := ignoreMissing(d.objs.Bindings.Delete(k)); err != nil {
		return false, fmt.Errorf("delete a replica: %w", err)
	}
	back := returnKey(k, &there)
	return true, d.deleteReturn(&back)
}

func (d *Datapath) deleteReturn(back *edgeConnKey) error {
	if err := ignoreMissing(d.objs.Returns.Delete(back)); err != nil {
		return fmt.Errorf("delete the return of a binding: %w", err)
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
