package pkttest

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// Named is a packet with the word that a report calls it by.
type Named struct {
	Name  string
	Bytes []byte
}

// Errorf fails the test with the packets printed decoded, and keeps them as a
// pcap whose name it says.
func Errorf(t testing.TB, packets []Named, format string, args ...any) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, format, args...)
	for _, p := range packets {
		fmt.Fprintf(&b, "\n\n%s, %d bytes\n%s", p.Name, len(p.Bytes), Decoded(p.Bytes))
	}
	if path, err := Keep(t.Name(), packets); err != nil {
		fmt.Fprintf(&b, "\npcap: %v", err)
	} else {
		fmt.Fprintf(&b, "\npcap: %s", path)
	}
	t.Error(b.String())
}

// Decoded is a packet in words and bytes.
func Decoded(b []byte) string {
	if len(b) == 0 {
		return "  nothing\n"
	}
	p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.DecodeOptions{NoCopy: true})
	var s strings.Builder
	for _, l := range p.Layers() {
		fmt.Fprintf(&s, "  %s\n", gopacket.LayerString(l))
	}
	for _, f := range Dissect(b).Faults {
		fmt.Fprintf(&s, "  wrong: %v\n", f)
	}
	return s.String() + hex.Dump(b[:min(len(b), 256)])
}

// Keep writes the packets into a new pcap file under the temporary directory.
func Keep(test string, packets []Named) (path string, err error) {
	dir, err := os.MkdirTemp("", "selvage-pkttest-")
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, strings.NewReplacer("/", "-", " ", "_").Replace(test)+".pcap")
	file, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	_, err = file.Write(pcap(packets))
	return path, err
}

// pcap is the classic file format with link type 1, Ethernet, which is less than
// the dependencies of a package that writes it.
func pcap(packets []Named) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, 0xa1b2c3d4)
	b = le.AppendUint16(le.AppendUint16(b, 2), 4)  // version
	for _, v := range []uint32{0, 0, 1 << 18, 1} { // time zone, accuracy, longest packet, link type
		b = le.AppendUint32(b, v)
	}
	for i, p := range packets {
		for _, v := range []uint32{uint32(i), 0, uint32(len(p.Bytes)), uint32(len(p.Bytes))} { // time, lengths
			b = le.AppendUint32(b, v)
		}
		b = append(b, p.Bytes...)
	}
	return b
}
