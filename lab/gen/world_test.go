package gen

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/tier"
)

const (
	actionDrop, actionPass, actionTX, actionRedirect = 1, 2, 3, 4

	srcMAC, dstMAC           = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
	innerSrcMAC, innerDstMAC = "02:00:00:00:00:1a", "02:00:00:00:00:1b"
)

func mac(s string) net.HardwareAddr {
	m, err := net.ParseMAC(s)
	if err != nil {
		panic(err)
	}
	return m
}

func TestMain(m *testing.M) {
	tier.SideBySide(8)
	os.Exit(m.Run())
}

// tunnels are all kinds of them by name; nil is none.
func tunnels() map[string]*Tunnel {
	all := map[string]*Tunnel{"plain": nil}
	for _, e := range []overlay.Encapsulation{overlay.VXLAN, overlay.Geneve, overlay.NVGRE} {
		for family, teps := range map[int][2]string{4: {"192.0.2.1", "192.0.2.2"}, 6: {"2001:db8::1", "2001:db8::2"}} {
			t := &Tunnel{
				Encapsulation: e, VNI: 0xabcdef, SrcMAC: mac(innerSrcMAC), DstMAC: mac(innerDstMAC),
				Local: netip.MustParseAddr(teps[0]), Remote: netip.MustParseAddr(teps[1]),
			}
			all[fmt.Sprintf("%s over IPv%d", e, family)] = t
			if e == overlay.Geneve {
				with := *t
				with.Options = append(pkttest.Option(0x102, 0x81, 8), pkttest.Option(0x103, 1, 44)...)
				all[fmt.Sprintf("%s with options over IPv%d", e, family)] = &with
			}
		}
	}
	return all
}

// testSender is loaded, but has no interface.
func testSender(t *testing.T, stream Stream, tunnels ...*Tunnel) *Sender {
	t.Helper()
	tier.Root(t)
	if len(tunnels) == 0 {
		tunnels = []*Tunnel{nil}
	}
	var ports []Port
	for i, tunnel := range tunnels {
		ports = append(ports, Port{Ifindex: i + 1, SrcMAC: mac(srcMAC), DstMAC: mac(dstMAC), Tunnel: tunnel})
	}
	if err := stream.Check(); err != nil {
		t.Fatal(err)
	}
	s := &Sender{stream: stream.withDefaults(), core: Anywhere, next: 1}
	if err := s.checkPorts(ports); err != nil {
		t.Fatal(err)
	}
	if err := s.load(ports); err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.objects.Current.Set(Load{Frames: 1 << 40}.withDefaults().run(1)); err != nil {
		t.Fatal(err)
	}
	return s
}

// make is the next frame, made in a buffer whose headers and mark another use has
// spoiled.
func (s *Sender) make(t *testing.T) []byte {
	t.Helper()
	buffer := append([]byte(nil), s.first...)
	payload := s.stream.largest() - FCS - s.stream.headers()
	for i := range len(buffer) - payload + markLen {
		buffer[i] = 0xa5
	}
	_, out := run(t, s.objects.Generate, buffer)
	return out
}

func run(t *testing.T, program *ebpf.Program, frame []byte) (action uint32, out []byte) {
	t.Helper()
	options := ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+512)}
	action, err := program.Run(&options)
	if err != nil {
		t.Fatal(err)
	}
	return action, options.DataOut
}

// marked is the mark of a frame.
func marked(flow int, seq uint64, sent uint64) []byte {
	b := binary.LittleEndian.AppendUint16(nil, 0x5e1f)
	b = append(b, 0, 1)
	b = binary.LittleEndian.AppendUint64(b, uint64(flow)<<40|seq)
	b = binary.LittleEndian.AppendUint32(b, uint32(sent))
	return binary.LittleEndian.AppendUint16(b, uint16(sent>>32))
}

// crafted is a frame of the stream with that mark and more payload.
func crafted(mark []byte, more int) []byte {
	return pkttest.Packet(pkttest.Ether(srcMAC, dstMAC), pkttest.IPv4("198.18.0.2", "198.19.0.2"), pkttest.UDP(49152, 7),
		pkttest.Bytes(append(mark, make([]byte, more)...)))
}
