package pkttest

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/selvage/selvage/internal/overlay"
)

const (
	alice = "02:00:00:00:00:0a"
	bob   = "02:00:00:00:00:0b"
)

var everything = []string{
	"tcp 10.0.0.1:1000 > 10.0.0.2:80 syn",
	"tcp 10.0.0.1:1000 > 10.0.0.2:80 psh+ack 101",
	"tcp [2001:db8::1]:1000 > [2001:db8::2]:80 100",
	"udp 10.0.0.1:53 > 10.0.0.2:53 18",
	"udp [2001:db8::1]:53 > [2001:db8::2]:53 19",
	"icmp 10.0.0.1 > 10.0.0.2 56",
	"icmp 2001:db8::1 > 2001:db8::2 57",
	"ip 10.0.0.1 > 10.0.0.2 132 20",
	"ip 2001:db8::1 > 2001:db8::2 132 20",
	"fragment 10.0.0.1 > 10.0.0.2 0 64",
	"fragment 10.0.0.1 > 10.0.0.2 1480 64",
	"fragment 2001:db8::1 > 2001:db8::2 1448 64",
	"arp 10.0.0.1 ? 10.0.0.2",
	"arp 10.0.0.2 ! 10.0.0.1",
	"ns 2001:db8::1 ? 2001:db8::2",
	"ns :: ? 2001:db8::2",
	"na 2001:db8::2 ! 2001:db8::1",
	"na 2001:db8::2 ! ff02::1",
	"icmp 10.0.0.1 > 10.0.0.2 3/4 56",
	"icmp 2001:db8::1 > 2001:db8::2 2/0 57",
	"tcp 10.0.0.1:1000 > 10.0.0.2:80 syn nop mss 1460",
	"tcp 10.0.0.1:1000 > 10.0.0.2:80 syn+ack seq 4294967295 acks 7 mss 1460 nop scale 7 10",
	"tcp [2001:db8::1]:1000 > [2001:db8::2]:80 none seq 5",
	"icmp 10.0.0.1 > 10.0.0.2 0/0 id 9 56",
	"icmp 2001:db8::1 > 2001:db8::2 129/0 id 9 56",
	"tos 0x2e ttl 3 df udp 10.0.0.1:53 > 10.0.0.2:53 18",
	"tos 0x2e ttl 3 udp [2001:db8::1]:53 > [2001:db8::2]:53 19",
	"vlan 7 tcp 10.0.0.1:1000 > 10.0.0.2:80 syn",
	"svlan 100 vlan 7 tcp [2001:db8::1]:1000 > [2001:db8::2]:80 100",
	"vlan 7 arp 10.0.0.1 ? 10.0.0.2",
	"lldp",
	"raw 0x88b5 0",
	"raw 0x88b5 46",
}

func TestFramesAreRight(t *testing.T) {
	for _, words := range everything {
		frame := Frame(alice, bob, words)
		if d := Dissect(frame); len(d.Faults) > 0 {
			Errorf(t, []Named{{words, frame}}, "%s: %v", words, d.Faults)
		}
	}
}

// gopacket reads what we say that we have built: a second opinion.
func TestFramesAreWhatTheWordsSay(t *testing.T) {
	p := gopacket.NewPacket(Frame(alice, bob, "tcp 10.0.0.1:1000 > 10.0.0.2:80 syn 7"), layers.LayerTypeEthernet, gopacket.Default)
	tcp, ok := p.TransportLayer().(*layers.TCP)
	if !ok {
		t.Fatalf("no TCP in %v", p)
	}
	if tcp.SrcPort != 1000 || tcp.DstPort != 80 || !tcp.SYN || tcp.ACK || len(tcp.Payload) != 7 {
		t.Errorf("built %v", p)
	}
	if err := tcp.SetNetworkLayerForChecksum(p.NetworkLayer()); err != nil {
		t.Fatal(err)
	}
	if err, mismatches := p.VerifyChecksums(); err != nil || len(mismatches) > 0 {
		t.Errorf("checksums: %v, %v", err, mismatches)
	}
}

func TestWrap(t *testing.T) {
	inner := Frame(alice, bob, "udp 10.0.0.1:53 > 10.0.0.2:53 18")
	option := Option(0x0103, 0x81, 8)
	for _, src := range []string{"192.0.2.1", "2001:db8::1"} {
		for _, c := range []struct {
			o      Outer
			header string
		}{
			{Outer{}, "0800000012345600"},
			{Outer{Checksum: true, Options: 8}, "0800000012345600"},
			{Outer{Encapsulation: overlay.Geneve}, "0000655812345600"},
			{Outer{Encapsulation: overlay.Geneve, Flags: GeneveCritical, GeneveOptions: option, TOS: 3, TTL: 1}, "0340655812345600" + "01038102" + "0001020304050607"},
			{Outer{Encapsulation: overlay.NVGRE, Reserved: 0xab}, "20006558123456ab"},
			{Outer{Encapsulation: overlay.NVGRE, MayFragment: true, ID: 7, FlowLabel: 9}, "2000655812345600"},
		} {
			o := c.o
			o.Src, o.Dst = netip.MustParseAddr(src), netip.MustParseAddr(src).Next()
			o.SrcMAC, o.DstMAC, o.VNI = alice, bob, 0x123456
			b := o.Wrap(inner)
			d := Dissect(b)
			if len(d.Faults) > 0 {
				Errorf(t, []Named{{"tunnel packet", b}}, "%+v: %v", o, d.Faults)
			}
			if !bytes.Equal(b[o.Len():], inner) || d.Headers[len(d.Headers)-1].Kind != KindUDP {
				t.Errorf("%+v: the frame is not at byte %d: %v", o, o.Len(), d.Headers)
			}
			if got := hex.EncodeToString(b[o.HeaderAt():o.Len()]); got != c.header {
				t.Errorf("%+v: the tunnel header is %s, want %s", o, got, c.header)
			}
			if at := o.HeaderAt() - 2; !o.NVGRE() && (b[at] == 0 && b[at+1] == 0) == o.Checksum {
				t.Errorf("%+v: UDP checksum %x", o, b[at:at+2])
			}
		}
	}
}

// What a tunnel header may not have is noticed.
func TestDissectTunnelHeaders(t *testing.T) {
	inner := Frame(alice, bob, "udp 10.0.0.1:53 > 10.0.0.2:53 18")
	o := Outer{
		SrcMAC: alice, DstMAC: bob, Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), VNI: 1,
		Encapsulation: overlay.Geneve, GeneveOptions: Option(1, 2, 8),
	}
	good := o.Wrap(inner)
	for name, change := range map[string]struct {
		at       int
		to       byte
		severity Severity
	}{
		"Geneve version":                {0, 0x43, Inconsistent},
		"Geneve protocol":               {2, 0x64, Inconsistent},
		"option longer than all":        {11, 3, Cut},
		"options longer than the frame": {0, 0x3f, Cut},
	} {
		b := bytes.Clone(good)
		b[o.HeaderAt()+change.at] = change.to
		if d := Dissect(b); !d.Has(change.severity) {
			t.Errorf("%s: %v", name, d.Faults)
		}
	}
	o.Encapsulation, o.GeneveOptions, o.Flags = overlay.NVGRE, nil, 0x3000 // with a sequence number
	if d := Dissect(o.Wrap(inner)); d.Headers[len(d.Headers)-1].Kind != KindIPv4 {
		t.Errorf("GRE that is no NVGRE has %v", d.Headers)
	}
}

// Every byte of a header that a checksum covers is noticed when it changes.
func TestDissectNoticesChangedBytes(t *testing.T) {
	for _, words := range []string{everything[1], everything[2], everything[4], everything[5], everything[6]} {
		frame := Frame(alice, bob, words)
		for at := etherLen; at < len(frame); at++ {
			if strings.Contains(words, ":db8:") && at < etherLen+8 {
				continue // IPv6 itself has no checksum
			}
			changed := bytes.Clone(frame)
			changed[at] ^= 0x10
			if d := Dissect(changed); len(d.Faults) == 0 {
				Errorf(t, []Named{{"changed", changed}}, "%s: nothing noticed with byte %d changed", words, at)
			}
		}
	}
}

func TestDissectNoticesEveryCut(t *testing.T) {
	for _, words := range everything {
		frame := Frame(alice, bob, words)
		if words == "lldp" || strings.HasPrefix(words, "raw") {
			continue // these do not say how long they are
		}
		for n := range frame {
			if !Dissect(frame[:n]).Has(Cut) {
				t.Errorf("%s: a cut at %d of %d bytes is not noticed", words, n, len(frame))
			}
		}
	}
}

func TestReportKeepsPcap(t *testing.T) {
	frame := Frame(alice, bob, everything[0])
	path, err := Keep("a test/with a name", []Named{{"in", frame}, {"out", frame}})
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(strings.TrimSuffix(path, "/a_test-with_a_name.pcap"))
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := 24 + 2*(16+len(frame)); len(got) != want {
		t.Errorf("the pcap has %d bytes, want %d", len(got), want)
	}
	if text := Decoded(frame); !strings.Contains(text, "DstPort=80") {
		t.Errorf("decoded:\n%s", text)
	}
}

// The kernel's rule for what a reset says is RFC 9293 3.10.7.1; here in numbers.
func TestResetFor(t *testing.T) {
	for words, want := range map[string]Segment{
		"tcp 10.0.0.1:5 > 10.0.0.2:6 syn seq 100":                     {SrcPort: 6, DstPort: 5, Ack: 101, Flags: RST | ACK},
		"tcp 10.0.0.1:5 > 10.0.0.2:6 syn+fin seq 100 7":               {SrcPort: 6, DstPort: 5, Ack: 109, Flags: RST | ACK},
		"tcp [2001:db8::1]:5 > [2001:db8::2]:6 ack seq 8 acks 77 10":  {SrcPort: 6, DstPort: 5, Seq: 77, Flags: RST},
		"tcp [2001:db8::1]:5 > [2001:db8::2]:6 none seq 0xffffffff 1": {SrcPort: 6, DstPort: 5, Flags: RST | ACK},
	} {
		want.Scale = NoScale
		reset := ResetFor(Frame(alice, bob, words))
		if d := Dissect(reset); len(d.Faults) > 0 {
			Errorf(t, []Named{{words, reset}}, "%s: %v", words, d.Faults)
		}
		if got, _ := TCPOf(reset); got != want {
			t.Errorf("%s: %+v, want %+v", words, got, want)
		}
	}
	if ResetFor(Frame(alice, bob, "tcp 10.0.0.1:5 > 10.0.0.2:6 rst")) != nil {
		t.Error("a reset is answered by a reset")
	}
}

// gopacket puts the pieces together again; an extension chain ends where it did.
func TestPieces(t *testing.T) {
	whole := Frame(alice, bob, "udp 10.0.0.1:53 > 10.0.0.2:54 100")
	var body []byte
	for i, piece := range Fragments(whole, 7, 48) {
		p := gopacket.NewPacket(piece, layers.LayerTypeEthernet, gopacket.Default)
		ip, ok := p.NetworkLayer().(*layers.IPv4)
		if !ok || ip.Id != 7 || int(ip.FragOffset)*8 != i*48 || ip.Flags&layers.IPv4MoreFragments == 0 != (i == 2) {
			t.Fatalf("fragment %d: %v", i, p)
		}
		if d := Dissect(piece); len(d.Faults) > 0 {
			t.Errorf("fragment %d: %v", i, d.Faults)
		}
		body = append(body, ip.Payload...)
	}
	if !bytes.Equal(body, whole[34:]) {
		t.Error("the fragments are not the packet")
	}
	six := Frame(alice, bob, "tcp [2001:db8::1]:5 > [2001:db8::2]:6 syn 100")
	for _, b := range [][]byte{Atomic(six, 9), WithExtensions(six, ProtoHopByHop, ProtoRouting, ProtoDestination)} {
		p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default)
		if ext := b[14+40:]; b[14+6] == ProtoFragment && (ext[0] != ProtoTCP || !bytes.Equal(ext[8:], six[54:])) {
			t.Errorf("atomic fragment: %x", b)
		}
		if d := Dissect(b); len(d.Faults) > 0 || p.ErrorLayer() != nil {
			t.Errorf("%v, %v: %v", d.Faults, p.ErrorLayer(), p)
		}
	}
	if s, ok := TCPOf(WithExtensions(six, ProtoHopByHop)); !ok || s.Payload != 100 || s.String() != "syn 100" {
		t.Errorf("behind an extension header: %+v", s)
	}
}

// The numbers and the scale are those of the words, and an error quotes what it is about.
func TestNumbersOfWords(t *testing.T) {
	syn := Frame(alice, bob, "tcp 10.0.0.1:1000 > 10.0.0.2:80 syn+ack seq 4294967295 acks 7 mss 1460 nop scale 7 10")
	want := Segment{SrcPort: 1000, DstPort: 80, Seq: 4294967295, Ack: 7, Flags: SYN | ACK, Window: 1000, Scale: 7, Payload: 10}
	if got, ok := TCPOf(syn); !ok || got != want || got.Next() != 10 {
		t.Errorf("%+v, next %d, want %+v", got, got.Next(), want)
	}
	for _, v6 := range []bool{false, true} {
		src, dst, about, header := netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("10.0.0.1"), syn, 14+20+8
		if v6 {
			src, dst, about, header = netip.MustParseAddr("2001:db8::9"), netip.MustParseAddr("2001:db8::1"), Frame(alice, bob, "udp [2001:db8::1]:5 > [2001:db8::2]:6 40"), 14+40+8
		}
		b := ErrorAbout(bob, alice, src, dst, 1, 4, about, 30)
		if d := Dissect(b); len(d.Faults) > 0 || !bytes.Equal(b[header:], about[14:44]) {
			Errorf(t, []Named{{"error", b}}, "%v: quotes %x", d.Faults, b[header:])
		}
	}
}

func TestPcapComesBack(t *testing.T) {
	path := t.TempDir() + "/x.pcap"
	want := [][]byte{Frame(alice, bob, everything[0]), Frame(bob, alice, everything[1])}
	if err := os.WriteFile(path, Pcap(want), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := ReadPcap(path)
	if err != nil || len(got) != 2 || !bytes.Equal(got[0], want[0]) || !bytes.Equal(got[1], want[1]) {
		t.Errorf("%v, %x", err, got)
	}
}
