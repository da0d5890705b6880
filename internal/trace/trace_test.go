package trace

import (
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

const srcMAC, dstMAC = "02:00:00:00:00:01", "02:00:00:00:00:02"

func ether(t *testing.T, vlans ...uint16) Ether {
	t.Helper()
	src, err := overlay.ParseMAC(srcMAC)
	if err != nil {
		t.Fatal(err)
	}
	dst, err := overlay.ParseMAC(dstMAC)
	if err != nil {
		t.Fatal(err)
	}
	return Ether{Src: src, Dst: dst, VLANs: vlans}
}

// The same words give the same bytes as the tests' own builder, which is
// another program: lengths and checksums are right.
func TestFramesAreThoseOfTheTests(t *testing.T) {
	for _, words := range []string{
		"tcp 10.0.0.1:1000 > 10.0.0.2:80", "tcp 10.0.0.1:1000 > 10.0.0.2:80 syn", "tcp [2001:db8::1]:1 > [2001:db8::2]:2 syn+ack 101",
		"udp 10.0.0.1:53 > 10.0.0.2:53", "udp [2001:db8::1]:53 > [2001:db8::2]:53 18", "udp 10.0.0.1:53 > 10.0.0.2:53 7",
		"icmp 10.0.0.1 > 10.0.0.2 56", "ip 10.0.0.1 > 10.0.0.2 132 20", "ip 2001:db8::1 > 2001:db8::2 132 20",
		"fragment 10.0.0.1 > 10.0.0.2 1480 64", "fragment 10.0.0.1 > 10.0.0.2 0 64",
		"fragment 2001:db8::1 > 2001:db8::2 1448 64", "fragment 2001:db8::1 > 2001:db8::2 0 64",
		"arp 10.0.0.1 ? 10.0.0.2", "raw 0x88b5 46",
	} {
		p, err := Parse(words)
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(pkttest.Frame(srcMAC, dstMAC, words), p.Frame(ether(t))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", words, diff)
		}
	}
}

func TestSummary(t *testing.T) {
	for words, want := range map[string]string{
		"tcp 10.0.0.1:1000 > 10.1.0.2:80 syn":        "tcp 10.0.0.1:1000 > 10.1.0.2:80 syn, TTL 64, 40 bytes",
		"udp [2001:db8::1]:53 > [2001:db8::2]:53 18": "udp [2001:db8::1]:53 > [2001:db8::2]:53, TTL 64, 66 bytes",
		"icmp 10.0.0.1 > 10.0.0.2 56":                "icmp 10.0.0.1 > 10.0.0.2 echo request, TTL 64, 84 bytes",
		"icmp 2001:db8::1 > 2001:db8::2":             "icmp 2001:db8::1 > 2001:db8::2 echo request, TTL 64, 48 bytes",
		"ip 10.0.0.1 > 10.0.0.2 132 20":              "ip 10.0.0.1 > 10.0.0.2 protocol 132, TTL 64, 40 bytes",
		"fragment 10.0.0.1 > 10.0.0.2 1480 64":       "ip 10.0.0.1 > 10.0.0.2 protocol 17, TTL 64, 84 bytes, fragment at 1480",
		"arp 10.0.0.1 ? 10.0.0.2":                    "arp 10.0.0.1 ? 10.0.0.2",
		"raw 0x88b5 46":                              "ethertype 0x88b5, 46 bytes",
	} {
		p, err := Parse(words)
		if err != nil {
			t.Error(err)
			continue
		}
		if got, want := Summary(p.Frame(ether(t, 10, 20))), srcMAC+" > "+dstMAC+", VLAN 10, VLAN 20: "+want; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestParseSays(t *testing.T) {
	for words, want := range map[string]string{
		"":                                     "the packet ends where tcp, udp, icmp, ip, fragment, arp or raw is expected",
		"sctp 10.0.0.1 > 10.0.0.2":             `"sctp" is not a kind of packet`,
		"tcp 10.0.0.1 > 10.0.0.2:80":           `"10.0.0.1" is not an address with a port, like 10.0.0.1:80 or [2001:db8::1]:80`,
		"tcp 10.0.0.1:1 10.0.0.2:80":           `"10.0.0.2:80" where ">" is expected`,
		"tcp 10.0.0.1:1 > [2001:db8::2]:80":    "10.0.0.1 and 2001:db8::2 are of different families",
		"tcp 10.0.0.1:1 > 10.0.0.2:80 sin":     `there is no TCP flag "sin"`,
		"tcp 10.0.0.1:1 > 10.0.0.2:80 syn 1 2": `unexpected "2" at the end`,
		"udp 10.0.0.1:1 > 10.0.0.2:80 65535":   "it has 65563 bytes, at most 65535",
		"icmp 10.0.0.1 >":                      "the packet ends where an IP address is expected",
		"arp 2001:db8::1 ? 2001:db8::2":        "ARP asks for IPv4 addresses",
		"fragment 10.0.0.1 > 10.0.0.2 7":       "a fragment cannot begin at 7: write a multiple of 8",
		"raw 0x10000":                          `"0x10000" is not an ethertype up to 65535`,
	} {
		_, err := Parse(words)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), Grammar) {
			t.Errorf("%q: %v, want %q and the grammar", words, err, want)
		}
	}
	for line := range strings.Lines(Grammar) {
		if _, err := Parse(line); err != nil {
			t.Errorf("the grammar's own %q: %v", line, err)
		}
	}
}

func TestSizeAndTTL(t *testing.T) {
	p, err := Parse("udp 10.0.0.1:1 > 10.0.0.2:2")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.SetSize(1500); err != nil {
		t.Fatal(err)
	}
	p.TTL = 1
	frame := p.Frame(ether(t))
	if got := Summary(frame); len(frame) != 1514 || !strings.HasSuffix(got, "TTL 1, 1500 bytes") {
		t.Errorf("%d bytes: %s", len(frame), got)
	}
	for _, size := range []int{0, 27, 65536} {
		if err := p.SetSize(size); err == nil {
			t.Errorf("a UDP packet of %d bytes", size)
		}
	}
}

// encapsulations of the default ports.
func defaults(port uint16) overlay.Encapsulation {
	for _, e := range []overlay.Encapsulation{overlay.VXLAN, overlay.Geneve} {
		if e.DefaultUDPPort() == port {
			return e
		}
	}
	return ""
}

func TestDescribeTunnels(t *testing.T) {
	inner := pkttest.Frame(srcMAC, dstMAC, "tcp 10.0.0.1:1000 > 10.1.0.2:80 syn")
	const inside = "inside: " + srcMAC + " > " + dstMAC + ": tcp 10.0.0.1:1000 > 10.1.0.2:80 syn, TTL 64, 40 bytes"
	const link = "02:00:00:00:0a:01 > 02:00:00:00:0a:02"
	outer := pkttest.Outer{SrcMAC: "02:00:00:00:0a:01", DstMAC: "02:00:00:00:0a:02",
		Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), VNI: 100}
	vxlan := outer.Wrap(inner)
	geneve := pkttest.Packet(pkttest.Ether("02:00:00:00:0a:01", "02:00:00:00:0a:02"), pkttest.IPv6("2001:db8::1", "2001:db8::2"),
		pkttest.UDP(50000, 6081), pkttest.Bytes(append(unhex(t, "0200 6558 0000c800 0104 0101 deadbeef"), inner...)))
	gre := pkttest.IPv4("192.0.2.1", "192.0.2.2")
	gre.Protocol, gre.TOS = 47, 46<<2|1
	nvgre := pkttest.Packet(pkttest.Ether("02:00:00:00:0a:01", "02:00:00:00:0a:02"), gre,
		pkttest.Bytes(append(unhex(t, "2000 6558 00138907"), inner...)))
	for _, c := range []struct {
		frame []byte
		want  []string
	}{
		{vxlan, []string{link, "IPv4 192.0.2.1 > 192.0.2.2, 90 bytes, DSCP 0, ECN 0, TTL 64, DF", "UDP 50000 > 4789, 70 bytes, no checksum", "VXLAN VNI 100", inside}},
		{geneve, []string{link, "IPv6 2001:db8::1 > 2001:db8::2, 118 bytes, DSCP 0, ECN 0, TTL 64", "UDP 50000 > 6081, 78 bytes, with checksum",
			"Geneve VNI 200, options 01040101deadbeef", inside}},
		{nvgre, []string{link, "IPv4 192.0.2.1 > 192.0.2.2, 82 bytes, DSCP 46, ECN 1, TTL 64", "NVGRE VSID 5001, FlowID 7", inside}},
		{inner, []string{strings.TrimPrefix(inside, "inside: ")}},
	} {
		if diff := cmp.Diff(c.want, Describe(c.frame, defaults)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGroupMAC(t *testing.T) {
	for address, want := range map[string]string{
		"255.255.255.255": "ff:ff:ff:ff:ff:ff", "239.129.2.3": "01:00:5e:01:02:03", "ff02::1:ff00:1": "33:33:ff:00:00:01", "10.0.0.1": "",
	} {
		mac, group := GroupMAC(netip.MustParseAddr(address))
		if group != (want != "") || group && mac.String() != want {
			t.Errorf("%s: %s, %v, want %q", address, mac, group, want)
		}
	}
}

// FuzzDescribe: whatever the bytes, there are lines of text.
func FuzzDescribe(f *testing.F) {
	for _, words := range []string{"tcp 10.0.0.1:1 > 10.0.0.2:2 syn", "udp [2001:db8::1]:1 > [2001:db8::2]:6081 60", "arp 10.0.0.1 ? 10.0.0.2"} {
		f.Add(pkttest.Frame(srcMAC, dstMAC, words))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		lines := Describe(frame, defaults)
		if len(lines) == 0 || slices.Contains(lines, "") {
			t.Errorf("%q", lines)
		}
	})
}

// FuzzParse: what can be read can be built, and is a frame of the right length.
func FuzzParse(f *testing.F) {
	for line := range strings.Lines(Grammar) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, words string) {
		p, err := Parse(words)
		if err != nil {
			return
		}
		if frame := p.Frame(Ether{VLANs: []uint16{1}}); len(frame) != etherLen+tagLen+p.size() {
			t.Errorf("%d bytes, want %d of %q", len(frame), etherLen+tagLen+p.size(), words)
		}
	})
}

// Of a packet in a tunnel the outer addresses count.
func TestAddrs(t *testing.T) {
	for words, want := range map[string]string{
		"tcp 10.0.0.1:1 > 10.1.0.2:80 syn":    "10.0.0.1 10.1.0.2",
		"icmp 2001:db8::1 > 2001:db8::2":      "2001:db8::1 2001:db8::2",
		"udp 192.0.2.1:5 > 192.0.2.2:4789 80": "192.0.2.1 192.0.2.2",
		"raw 0x88b5 46":                       "invalid IP invalid IP",
	} {
		p, err := Parse(words)
		if err != nil {
			t.Fatal(err)
		}
		src, dst := Addrs(p.Frame(Ether{}))
		if got := src.String() + " " + dst.String(); got != want {
			t.Errorf("%s: %s", words, got)
		}
	}
	if src, dst := Addrs(nil); src.IsValid() || dst.IsValid() {
		t.Errorf("of nothing: %s %s", src, dst)
	}
}
