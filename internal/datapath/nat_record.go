package datapath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// NATRecord is a session as gateways tell each other of it: without numbers that are
// one edge's own, and without clocks.
type NATRecord struct {
	Router, Policy          uint32 // NameTag of their names
	Proto                   uint8
	EchoDir                 uint8 // ICMP echo: 1 the one inside asks, 2 the one outside
	Flags                   uint16
	Bits                    uint32         // of struct conn of bpf/abi/abi.h
	Inside, Outside, Egress netip.AddrPort // Outside is zero of a mapping
	// Via is the first address of the edge that the source is behind: the record's own,
	// where that is the one.
	Via           netip.Addr
	Scale         [2]uint8
	NextSeq       [2]uint32
	AgeNS, IdleNS uint64
	Counters      [2]Counters
	Replica       bool // it is another gateway's; not in the binary form
}

// NATRecordSize is the length of a record's binary form.
const NATRecordSize = 144

// recordFlags are the flags of sessions that go to others, and recordBits all bits of enum ct_bits: a
// receiver that does not know a bit ends the connection.
const (
	recordFlags = bpfNatSessionFlagsNAT_SESSION_FORWARDED | bpfNatSessionFlagsNAT_SESSION_INDEPENDENT | bpfNatSessionFlagsNAT_SESSION_MAPPING |
		bpfNatSessionFlagsNAT_SESSION_UNTRANSLATED
	recordBits = bpfCtBitsCT_STREAM<<1 - 1
	mostAskers = 2
)

// NameTag is by which maps and records name routers and policies: 32 bits of the name's
// hash (FNV-1a), never 0.
func NameTag(name string) uint32 {
	h := uint32(2166136261)
	for _, c := range []byte(name) {
		h = (h ^ uint32(c)) * 16777619
	}
	return max(h, 1)
}

// IsMapping reports whether the record is no connection, but a port held for all peers.
func (r *NATRecord) IsMapping() bool {
	return bpfNatSessionFlags(r.Flags)&bpfNatSessionFlagsNAT_SESSION_MAPPING != 0
}

// AppendBinary appends the record's binary form, of NATRecordSize bytes in network
// order. It never fails.
func (r *NATRecord) AppendBinary(b []byte) ([]byte, error) {
	o := binary.BigEndian
	b = o.AppendUint32(o.AppendUint32(b, r.Router), r.Policy)
	b = o.AppendUint32(o.AppendUint16(append(b, r.Proto, r.EchoDir), r.Flags), r.Bits)
	for _, a := range []netip.Addr{r.Inside.Addr(), r.Outside.Addr(), r.Egress.Addr(), r.Via} {
		b = appendAddr(b, a)
	}
	b = o.AppendUint16(o.AppendUint16(o.AppendUint16(b, r.Inside.Port()), r.Outside.Port()), r.Egress.Port())
	b = append(b, r.Scale[0], r.Scale[1])
	b = o.AppendUint32(o.AppendUint32(b, r.NextSeq[0]), r.NextSeq[1])
	b = o.AppendUint64(o.AppendUint64(b, r.AgeNS), r.IdleNS)
	for _, c := range r.Counters {
		b = o.AppendUint64(o.AppendUint64(b, c.Packets), c.Bytes)
	}
	return b, nil
}

// UnmarshalBinary reads the first NATRecordSize bytes of b, and refuses what no
// gateway would write.
func (r *NATRecord) UnmarshalBinary(b []byte) error {
	if len(b) < NATRecordSize {
		return fmt.Errorf("record of a session: %d bytes, not %d", len(b), NATRecordSize)
	}
	o := binary.BigEndian
	var addrs [4]netip.Addr
	for i := range addrs {
		addrs[i] = readAddr(b[16+16*i:])
	}
	*r = NATRecord{
		Router: o.Uint32(b), Policy: o.Uint32(b[4:]), Proto: b[8], EchoDir: b[9], Flags: o.Uint16(b[10:]), Bits: o.Uint32(b[12:]),
		Inside: netip.AddrPortFrom(addrs[0], o.Uint16(b[80:])), Outside: netip.AddrPortFrom(addrs[1], o.Uint16(b[82:])),
		Egress: netip.AddrPortFrom(addrs[2], o.Uint16(b[84:])), Via: addrs[3],
		Scale: [2]uint8{b[86], b[87]}, NextSeq: [2]uint32{o.Uint32(b[88:]), o.Uint32(b[92:])},
		AgeNS: o.Uint64(b[96:]), IdleNS: o.Uint64(b[104:]),
	}
	for i := range r.Counters {
		r.Counters[i] = Counters{Packets: o.Uint64(b[112+16*i:]), Bytes: o.Uint64(b[120+16*i:])}
	}
	return r.check()
}

// check refuses what no gateway would write.
func (r *NATRecord) check() error {
	switch inside, egress := r.Inside.Addr(), r.Egress.Addr(); {
	case r.EchoDir > mostAskers || r.Flags&^uint16(recordFlags) != 0 || r.Bits&^uint32(recordBits) != 0:
		return errors.New("record of a session: a flag that has no meaning")
	case !inside.IsValid() || !egress.IsValid() || inside.Is4() != egress.Is4():
		return errors.New("record of a session: addresses of different families, or none")
	case r.IsMapping() == r.Outside.Addr().IsValid():
		return errors.New("record of a session: a mapping with a peer, or a connection without")
	case !r.IsMapping() && r.Outside.Addr().Is4() != egress.Is4():
		return errors.New("record of a session: a peer of another family")
	}
	return nil
}

// appendAddr appends 16 bytes, zero for no address.
func appendAddr(b []byte, a netip.Addr) []byte {
	if !a.IsValid() {
		return append(b, make([]byte, 16)...)
	}
	bytes := a.As16()
	return append(b, bytes[:]...)
}

func readAddr(b []byte) netip.Addr {
	a := netip.AddrFrom16([16]byte(b[:16])).Unmap()
	if a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}

// EachNATRecord calls do for every session until it returns false. do must not keep r.
func (se *NATSessions) EachNATRecord(do func(r *NATRecord) bool) error {
	var r NATRecord // one for all: it escapes
	return se.table.each(func(k *bpfCtKey, b *bpfNatSession, now uint64) bool {
		r = se.record(k, b, now)
		return do(&r)
	})
}

func (se *NATSessions) record(k *bpfCtKey, b *bpfNatSession, now uint64) NATRecord {
	r := NATRecord{
		Router: se.numbers.tagOfRouter(k.Zone), Policy: se.numbers.tagOfEgress(uint32(b.Egress)),
		Proto: k.Proto, EchoDir: k.EchoDir, Flags: uint16(b.Flags) & uint16(recordFlags), Bits: b.Ct.Bits & uint32(recordBits),
		Inside:  netip.AddrPortFrom(addrOf(k.Inside.W), wire16(k.InsidePort)),
		Outside: netip.AddrPortFrom(orNone(k.Outside), wire16(k.OutsidePort)),
		Egress:  netip.AddrPortFrom(addrOf(b.Addr.W), wire16(b.Port)),
		Via:     se.prog.cfg.TEPs[0], Scale: b.Ct.Scale, NextSeq: b.Ct.NextSeq,
		AgeNS: b.Ct.ageNS(now), IdleNS: since(now, b.Ct.SeenNs),
		Counters: [2]Counters{toCounters(b.Ct.Counters[0]), toCounters(b.Ct.Counters[1])}, Replica: isReplica(b),
	}
	if b.Via != (bpfAddr{}) {
		r.Via = addrOf(b.Via.W)
	}
	return r
}

// tagOfRouter and tagOfEgress are 0 of one that is gone, which no edge has.
func (nu *numbers) tagOfRouter(id uint32) uint32 {
	if name, ok := nu.names.routers[id]; ok {
		return NameTag(name)
	}
	return 0
}

func (nu *numbers) tagOfEgress(id uint32) uint32 {
	if name, ok := nu.names.egresses[id]; ok {
		return NameTag(name)
	}
	return 0
}

// orNone is no address where the map has none.
func orNone(a bpfAddr) netip.Addr {
	if a == (bpfAddr{}) {
		return netip.Addr{}
	}
	return addrOf(a.W)
}
