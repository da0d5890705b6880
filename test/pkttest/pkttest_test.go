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
	for _, o := range []Outer{
		{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2")},
		{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), Checksum: true, Options: 8},
		{Src: netip.MustParseAddr("2001:db8::1"), Dst: netip.MustParseAddr("2001:db8::2")},
		{Src: netip.MustParseAddr("2001:db8::1"), Dst: netip.MustParseAddr("2001:db8::2"), Checksum: true},
	} {
		o.SrcMAC, o.DstMAC, o.VNI = alice, bob, 0x123456
		b := o.Wrap(inner)
		d := Dissect(b)
		if len(d.Faults) > 0 {
			Errorf(t, []Named{{"tunnel packet", b}}, "%+v: %v", o, d.Faults)
		}
		if !bytes.Equal(b[o.Len():], inner) {
			t.Errorf("%+v: the frame is not at byte %d", o, o.Len())
		}
		if got := hex.EncodeToString(b[o.Len()-8 : o.Len()]); got != "0800000012345600" {
			t.Errorf("VXLAN header is %s", got)
		}
		if zero := b[o.Len()-10] == 0 && b[o.Len()-9] == 0; zero == o.Checksum {
			t.Errorf("%+v: UDP checksum zero is %t", o, zero)
		}
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
