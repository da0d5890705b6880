package simulation

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
)

// actual is what the maps hold, read from their bytes as bpf/abi lays them out. No code of the
// data path is used.
type actual struct {
	ports    map[portKey]uint32
	vports   map[uint32]vport
	vnis     map[uint32]uint32 // VNI → segment
	remotes  map[remoteKey]uint32
	members  map[[2]uint32]uint32 // segment, index
	counts   map[uint32]uint32    // of members, by segment
	segments map[uint32]uint32    // in use: VNI → segment
	fdb      map[macKey]fdbEntry
	teps     map[[2]netip.Addr]uint32 // local, remote
	allowed  map[vportMAC]bool
	groups   map[uint16][]uint16 // of the vport that stands for a remote: vports by bucket, of all policies
	routes   map[netip.Prefix]uint32
	nexthops map[uint32][]uint16 // of groups
	hops     map[uint32]hop
	attached map[int]bool // interfaces with a program of a port or underlay
}

type (
	portKey   struct{ ifindex, vlan uint32 }
	remoteKey struct {
		addr    netip.Addr
		segment uint32
	}
	macKey struct {
		segment uint32
		mac     string
	}
	vportMAC struct {
		vport uint32
		mac   string
	}
	vport struct {
		kind    byte
		flags   uint16
		ifindex uint32
		segment uint32
		remote  netip.Addr
		local   netip.Addr
	}
	fdbEntry struct {
		vport  uint32
		origin byte
	}
	hop struct {
		segment uint32
		addr    netip.Addr
		vport   uint16
	}
)

// Of bpf/abi.
const (
	kindPort          = 1
	kindTEP           = 2
	flagGuardMACs     = 8
	flagFirewall      = 512
	originLearned     = 0
	originStatic      = 1
	originBGP         = 2
	noLearning        = 0x80000000
	routeGroup        = 1
	offSegmentVNI     = 4
	offSegmentMembers = 8
	offSegmentUsed    = 43
)

var le = binary.LittleEndian

// each calls do with the keys and values of a map.
func (w *world) each(name string, do func(k, v []byte)) {
	for key, value := range w.machine.Contents(name) {
		k, err := hex.DecodeString(key)
		if err != nil {
			w.t.Fatal(err)
		}
		v, err := hex.DecodeString(value)
		if err != nil {
			w.t.Fatal(err)
		}
		do(k, v)
	}
}

func addrOf(b []byte) netip.Addr {
	a := netip.AddrFrom16([16]byte(b[:16])).Unmap()
	if a == netip.IPv6Unspecified() {
		return netip.Addr{}
	}
	return a
}

func macText(b []byte) string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4], b[5])
}

func (w *world) actual() actual {
	a := actual{
		ports: map[portKey]uint32{}, vports: map[uint32]vport{}, vnis: map[uint32]uint32{}, remotes: map[remoteKey]uint32{},
		members: map[[2]uint32]uint32{}, counts: map[uint32]uint32{}, segments: map[uint32]uint32{}, fdb: map[macKey]fdbEntry{}, teps: map[[2]netip.Addr]uint32{},
		allowed: map[vportMAC]bool{}, groups: map[uint16][]uint16{}, routes: map[netip.Prefix]uint32{}, nexthops: map[uint32][]uint16{},
		hops: map[uint32]hop{}, attached: map[int]bool{},
	}
	w.each("ports", func(k, v []byte) { a.ports[portKey{le.Uint32(k), le.Uint32(k[4:])}] = le.Uint32(v) })
	w.each("vports", func(k, v []byte) {
		a.vports[le.Uint32(k)] = vport{
			kind: v[0], flags: le.Uint16(v[2:]), ifindex: le.Uint32(v[4:]), segment: le.Uint32(v[12:]), remote: addrOf(v[20:]), local: addrOf(v[36:]),
		}
	})
	w.each("vnis", func(k, v []byte) { a.vnis[le.Uint32(k)] = le.Uint32(v) })
	w.each("remotes", func(k, v []byte) { a.remotes[remoteKey{addrOf(k), le.Uint32(k[16:])}] = le.Uint32(v) })
	w.each("members", func(k, v []byte) { a.members[[2]uint32{le.Uint32(k), le.Uint32(k[4:])}] = le.Uint32(v) })
	w.each("segments", func(k, v []byte) {
		a.counts[le.Uint32(k)] = le.Uint32(v[offSegmentMembers:])
		if v[offSegmentUsed] != 0 {
			a.segments[le.Uint32(v[offSegmentVNI:])] = le.Uint32(k)
		}
	})
	w.each("fdb", func(k, v []byte) { a.fdb[macKey{le.Uint32(k), macText(k[4:])}] = fdbEntry{le.Uint32(v), v[16]} })
	w.each("teps", func(k, v []byte) { a.teps[[2]netip.Addr{addrOf(k), addrOf(k[16:])}] = le.Uint32(v) })
	w.each("allowed_macs", func(k, _ []byte) { a.allowed[vportMAC{le.Uint32(k), macText(k[4:])}] = true })
	w.each("path_groups", func(k, v []byte) {
		stands := le.Uint16(k)
		for i := 0; i+1 < len(v); i += 2 {
			a.groups[stands] = append(a.groups[stands], le.Uint16(v[i:]))
		}
	})
	w.actualRoutes(&a)
	for _, l := range w.machine.Attached() {
		if strings.Contains(l.Pin, "/port-") || strings.Contains(l.Pin, "/underlay-") {
			a.attached[l.Ifindex] = true
		}
	}
	return a
}

func (w *world) actualRoutes(a *actual) {
	w.each("routes", func(k, v []byte) {
		addr, bits := addrOf(k[8:]), int(le.Uint32(k))-32
		if addr.Is4() {
			bits -= 96
		}
		if v[0] == routeGroup {
			a.routes[netip.PrefixFrom(addr, bits)] = le.Uint32(v[4:])
		}
	})
	w.each("nexthop_groups", func(k, v []byte) {
		for i := 0; i+1 < len(v); i += 2 {
			a.nexthops[le.Uint32(k)] = append(a.nexthops[le.Uint32(k)], le.Uint16(v[i:]))
		}
	})
	w.each("nexthops", func(k, v []byte) {
		a.hops[le.Uint32(k)] = hop{segment: le.Uint32(v), vport: le.Uint16(v[4:]), addr: addrOf(v[12:])}
	})
}
