package check

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/test/pkttest"
)

const (
	alice = "02:00:00:00:00:0a"
	bob   = "02:00:00:00:00:0b"
)

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper()           {}
func (r *recorder) Name() string      { return "recorder" }
func (r *recorder) Error(args ...any) { r.said, _ = args[0].(string) }

func TestPacket(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	inner := pkttest.Frame(alice, bob, "tcp 10.0.0.1:1000 > 10.0.0.2:80 100")
	out := pkttest.Outer{SrcMAC: alice, DstMAC: bob, Src: a, Dst: b, VNI: 100}.Wrap(inner)
	Packet(t, inner, out, Ether(alice, bob), IP(a, b, TTL(64), DontFragment), UDP(DstPort(4789), NoChecksum, EntropyPort), VXLAN(100), Frame(inner))

	for want, checker := range map[string]Checker{
		"source > destination": Ether(bob, alice),
		"where ipv4 should be": IP(a, b),
	} {
		r := &recorder{TB: t}
		if Packet(r, inner, out, checker) || !strings.Contains(r.said, want) || !strings.Contains(r.said, "pcap: /") {
			t.Errorf("it says %q, want %q and a pcap", r.said, want)
		}
	}
	out[len(out)-1] ^= 1
	if r := (&recorder{TB: t}); Packet(r, inner, out) || !strings.Contains(r.said, "checksum: tcp") {
		t.Errorf("it says %q of a wrong checksum", r.said)
	}
}
