package fabric

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// message is one of BGP, of a type and so long.
func message(kind byte, length int) []byte {
	m := append(bytes.Repeat([]byte{0xff}, 16), 0, 0, kind)
	binary.BigEndian.PutUint16(m[16:], uint16(length))
	return append(m, make([]byte, length-19)...)
}

// Routes are told from keepalives, from End-of-RIB and from the middle of something long.
func TestUpdates(t *testing.T) {
	const update, keepalive = 2, 4
	long := message(update, 90)
	for name, c := range map[string]struct {
		stream []byte
		want   bool
	}{
		"nothing":                {nil, false},
		"a keepalive":            {message(keepalive, 19), false},
		"routes":                 {long, true},
		"routes, cut":            {long[:40], true},
		"a keepalive and routes": {append(message(keepalive, 19), long...), true},
		"End-of-RIB of EVPN":     {message(update, 29), false},
		"End-of-RIB of IPv4":     {message(update, 23), false},
		"the middle":             {long[5:], false},
		"a length of nothing":    {append(message(keepalive, 19)[:16], make([]byte, 40)...), false},
	} {
		if got := updates(c.stream); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// ipv4 is a frame with a packet of a protocol.
func ipv4(protocol byte, src, dst netip.Addr, payload []byte) []byte {
	frame := append(make([]byte, 12), 8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0)
	return append(append(append(frame, src.AsSlice()...), dst.AsSlice()...), payload...)
}

func TestReadCapture(t *testing.T) {
	near, far := netip.MustParseAddr("192.0.2.3"), netip.MustParseAddr("192.0.2.201")
	tcp := append([]byte{0, 179, 0, 179, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0}, message(2, 60)...)
	inner := net.HardwareAddr{2, 0, 0, 0, 0, 10}
	vxlan := append(make([]byte, 16), append(inner, make([]byte, 30)...)...)
	file := binary.NativeEndian.AppendUint32(nil, 0xa1b2c3d4)
	file = append(file, make([]byte, 20)...)
	for i, frame := range [][]byte{ipv4(6, far, near, tcp), ipv4(17, near, far, vxlan), make([]byte, 60), ipv4(6, far, near, nil)} {
		for _, n := range []int{1000 + i, 5, len(frame), len(frame)} {
			file = binary.NativeEndian.AppendUint32(file, uint32(n))
		}
		file = append(file, frame...)
	}
	name := filepath.Join(t.TempDir(), "x.pcap")
	read := func(file []byte) (all []received, err error) {
		if err := os.WriteFile(name, file, 0o600); err != nil {
			t.Fatal(err)
		}
		return all, readCapture(name, func(p received) { all = append(all, p) })
	}
	all, err := read(file)
	if err != nil || len(all) != 2 {
		t.Fatalf("%v, %v; want a packet of BGP and one of a tunnel", all, err)
	}
	if p := all[0]; p.src != far || p.dst != near || !p.updates || !p.at.Equal(time.Unix(1000, 5000)) {
		t.Errorf("%+v", p)
	}
	if p := all[1]; p.src != near || p.updates || !bytes.Equal(p.inner, inner) {
		t.Errorf("%+v", p)
	}
	for _, broken := range [][]byte{nil, file[:20], file[1:], file[:30], file[:len(file)-1]} {
		if _, err := read(broken); err == nil {
			t.Errorf("a file of %d bytes was read", len(broken))
		}
	}
}
