// Package checksum is the Internet's checksum (RFC 1071).
//
// Its one invariant: it is arithmetic on bytes and imports nothing of this module.
package checksum

import "encoding/binary"

// Add adds b, in words of 16 bits, to a sum that is under way. Behind an odd last byte
// a zero is thought.
func Add(sum uint32, b []byte) uint32 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return sum
}

// Fold makes a sum one word, the ones' complement sum. A header has its complement.
func Fold(sum uint32) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

// Of is what stands in the checksum field of a header, over b with zero there.
func Of(b []byte) uint16 { return ^Fold(Add(0, b)) }
