package nat

import (
	"encoding/binary"
	"net/netip"
)

// Buckets is into how many parts the sources of a policy are divided: EGRESS_BUCKETS of
// bpf/abi/abi.h.
const Buckets = 256

// Bucket is that of a source address, 0 … Buckets-1, as bpf/nat/nat.h finds it: the hash of
// bpf/l3/route.h over the words of the address as a little-endian machine reads them.
func Bucket(addr netip.Addr) int {
	b := addr.As16()
	word := func(i int) uint64 { return uint64(binary.LittleEndian.Uint32(b[4*i:])) }
	h := mix(0, word(0)<<32|word(1))
	h = mix(h, word(2)<<32|word(3))
	return int(mixLast(h) >> 32 & (Buckets - 1))
}

func mix(h, v uint64) uint64 {
	h = (h ^ v) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}

func mixLast(h uint64) uint64 {
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	return h ^ h>>32
}

// digest is an address as rendezvous hashing knows it.
func digest(addr netip.Addr) uint64 {
	b := addr.As16()
	return mixLast(mix(mix(1, binary.BigEndian.Uint64(b[:8])), binary.BigEndian.Uint64(b[8:])))
}

// score is how much two digests are drawn to each other (rendezvous hashing).
func score(a, b uint64) uint64 { return mixLast(mix(a, b)) }
