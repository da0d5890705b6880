package overlay

import (
	"encoding/json"
	"net/netip"
	"testing"
)

func TestRouteTargetText(t *testing.T) {
	for text, want := range map[string]RouteTarget{
		"65000:10010":      0x0002_fde8_0000271a,
		"65535:4294967295": 0x0002_ffff_ffffffff,
		"192.0.2.1:7":      0x0102_c0000201_0007,
		"4200000000:7":     0x0202_fa56ea00_0007,
		"65536:65535":      0x0202_00010000_ffff,
		"0.65000:7":        0x0202_0000fde8_0007,
		"0:0":              0x0002_0000_00000000,
	} {
		got, err := ParseRouteTarget(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: %016x %q, %v; want %016x", text, uint64(got), got, err, uint64(want))
		}
	}
	if got, err := ParseRouteTarget("64086.59904:7"); err != nil || got.String() != "4200000000:7" {
		t.Errorf("asdot: %s, %v", got, err)
	}
	if got := RouteTarget(0x030c000000000008).String(); got != "0x030c000000000008" {
		t.Errorf("not a route target: %s", got)
	}
	if got := ASTarget(65000, 10010).String(); got != "65000:10010" {
		t.Error(got)
	}
	if got := ASTarget(4200000000, 1<<16+9).String(); got != "4200000000:9" {
		t.Error(got)
	}
}

func TestRouteDistinguisherText(t *testing.T) {
	for text, want := range map[string]RouteDistinguisher{
		"65000:10010":  0x0000_fde8_0000271a,
		"192.0.2.1:7":  0x0001_c0000201_0007,
		"4200000000:7": 0x0002_fa56ea00_0007,
		"0.65000:7":    0x0002_0000fde8_0007,
	} {
		got, err := ParseRouteDistinguisher(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: %016x %q, %v; want %016x", text, uint64(got), got, err, uint64(want))
		}
	}
	if got := AddrDistinguisher(netip.MustParseAddr("192.0.2.1"), 7); got != 0x0001_c0000201_0007 {
		t.Errorf("%016x", uint64(got))
	}
	if got := RouteDistinguisher(0x0009000000000001).String(); got != "0x0009000000000001" {
		t.Errorf("of an unknown type: %s", got)
	}
}

func TestCommunityText(t *testing.T) {
	for text, want := range map[string]Community{
		"65000:1": 0xfde80001, "0:0": 0, "65535:65535": 0xffffffff, "no-export": 0xffffff01, "blackhole": 0xffff029a,
	} {
		got, err := ParseCommunity(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: %08x %q, %v; want %08x", text, uint32(got), got, err, uint32(want))
		}
	}
	if got, err := ParseCommunity("65535:65281"); err != nil || got.String() != "no-export" {
		t.Errorf("%s, %v", got, err)
	}
}

func TestBadBGPText(t *testing.T) {
	for _, text := range []string{
		"", ":", "1", "1:", ":1", "x:1", "1:x", "-1:1", "1:-1", "1:4294967296", "4294967296:1", "65536:65536", "192.0.2.1:65536",
		"192.0.2:1", "1.2.3:1", "1.65536:1", "2001:db8::1:7", " 1:1", "1:1 ", "+1:1", "0x1:1", "1:1:1",
	} {
		if got, err := ParseRouteTarget(text); err == nil {
			t.Errorf("%q is taken as the target %s", text, got)
		}
		if got, err := ParseRouteDistinguisher(text); err == nil {
			t.Errorf("%q is taken as the distinguisher %s", text, got)
		}
	}
	for _, text := range []string{"", "1", "1:", "65536:1", "1:65536", "no-such", "1:1:1", "192.0.2.1:1"} {
		if got, err := ParseCommunity(text); err == nil {
			t.Errorf("%q is taken as the community %s", text, got)
		}
	}
}

// Whatever the octets, documents keep them.
func FuzzBGPText(f *testing.F) {
	f.Add(uint64(0), uint32(0))
	f.Add(uint64(0x0202_0000fde8_0007), uint32(0xffffff01))
	f.Add(uint64(0x030c_00000000_0008), uint32(0xffff029a))
	f.Fuzz(func(t *testing.T, octets uint64, community uint32) {
		type document struct {
			Target        RouteTarget
			Distinguisher RouteDistinguisher
			Community     Community
		}
		want := document{RouteTarget(octets), RouteDistinguisher(octets), Community(community)}
		text, err := json.Marshal(want)
		var got document
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	})
}
