package pkttest

import (
	"encoding/binary"
	"fmt"
	"os"
)

// Pcap is the classic file format with link type 1, Ethernet. Its times are packet
// numbers: what was recorded does not depend on them.
func Pcap(packets [][]byte) []byte {
	named := make([]Named, len(packets))
	for i, b := range packets {
		named[i].Bytes = b
	}
	return pcap(named)
}

// ReadPcap reads what Pcap has made.
func ReadPcap(path string) ([][]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	if len(b) < 24 || le.Uint32(b) != 0xa1b2c3d4 || le.Uint32(b[20:]) != 1 {
		return nil, fmt.Errorf("%s is no little-endian pcap file of Ethernet frames", path)
	}
	var list [][]byte
	for b = b[24:]; len(b) > 0; {
		if len(b) < 16 {
			return nil, fmt.Errorf("%s: packet %d is cut short", path, len(list))
		}
		captured, length := le.Uint32(b[8:]), le.Uint32(b[12:])
		if captured != length || uint64(len(b)-16) < uint64(length) {
			return nil, fmt.Errorf("%s: packet %d of %d bytes is cut short", path, len(list), length)
		}
		list, b = append(list, b[16:16+length]), b[16+length:]
	}
	return list, nil
}
