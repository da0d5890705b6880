package trace

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParseFilter(t *testing.T) {
	p := netip.MustParsePrefix
	tcp, udp := []uint8{6}, []uint8{17}
	for words, want := range map[string]Filter{
		"":                                   {},
		"  ":                                 {},
		"ip":                                 {},
		"ip 132":                             {Protocols: []uint8{132}},
		"icmp":                               {Protocols: []uint8{1, 58}},
		"arp":                                {EtherType: 0x0806},
		"raw 0x88b5":                         {EtherType: 0x88b5},
		"tcp dst 10.1.0.2 dport 443":         {Protocols: tcp, Dst: p("10.1.0.2/32"), DstPort: 443},
		"udp host 10.0.0.1 port 53":          {Protocols: udp, Src: p("10.0.0.1/32"), SrcPort: 53, Either: true},
		"src 2001:db8::1 dst 2001:db8::/32":  {Src: p("2001:db8::1/128"), Dst: p("2001:db8::/32")},
		"src ::ffff:10.0.0.1":                {Src: p("10.0.0.1/32")},
		"sport 53 dst 0.0.0.0/0":             {SrcPort: 53, Dst: p("0.0.0.0/0")},
		"ip 17 sport 1":                      {Protocols: udp, SrcPort: 1},
		"icmp 10.0.0.1 > any":                {Protocols: []uint8{1, 58}, Src: p("10.0.0.1/32")},
		"any:53 > 10.0.0.0/8":                {SrcPort: 53, Dst: p("10.0.0.0/8")},
		"tcp 10.0.0.1:1000 > 10.1.0.2:80":    {Protocols: tcp, Src: p("10.0.0.1/32"), SrcPort: 1000, Dst: p("10.1.0.2/32"), DstPort: 80},
		"[2001:db8::1]:53 > [2001:db8::2]:1": {Src: p("2001:db8::1/128"), SrcPort: 53, Dst: p("2001:db8::2/128"), DstPort: 1},
		"src 10.0.0.0/8 any > any":           {}, // both ends replace what was said of one
		"src 10.0.0.1 src 10.0.0.2":          {Src: p("10.0.0.2/32")},
	} {
		got, err := ParseFilter(words)
		if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{})); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", words, err, diff)
		}
	}
}

// What cannot be is refused with what is wrong and the forms that there are.
func TestParseFilterRefuses(t *testing.T) {
	for words, want := range map[string]string{
		"sctp":                            `"sctp" is no kind of packet`,
		"tcp dport":                       "a port",
		"tcp dport 65536":                 "65536",
		"tcp dport -1":                    "-1",
		"src 10.0.0.256":                  "neither an IP address nor a prefix",
		"src fe80::1%eth0":                "neither an IP address nor a prefix",
		"ip 256":                          "256",
		"raw":                             "an ethertype",
		"10.0.0.1 >":                      "an address",
		"10.0.0.1 10.0.0.2":               ">",
		"10.0.0.1 > 10.0.0.2 dport 1":     `unexpected "dport 1"`,
		"10.0.0.1 > 2001:db8::1":          "different families",
		"host 10.0.0.1 dst 10.0.0.2":      "either end",
		"port 53 dport 53":                "either end",
		"arp src 10.0.0.1":                "only IP packets",
		"raw 0x0800 port 1":               "only IP packets",
		"any:70000 > any":                 "any:70000",
		"src " + strings.Repeat("1", 1e5): "neither an IP address nor a prefix",
	} {
		_, err := ParseFilter(words)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "tcp dst 10.1.0.2 dport 443") {
			t.Errorf("%.40q: %.300v, want %q", words, err, want)
		}
	}
}

// FuzzParseFilter: what is read can be asked for, and words that say it again are read alike.
func FuzzParseFilter(f *testing.F) {
	for line := range strings.Lines(FilterGrammar) {
		f.Add(strings.TrimSpace(line))
	}
	f.Fuzz(func(t *testing.T, words string) {
		got, err := ParseFilter(words)
		if err != nil {
			return
		}
		if len(got.Protocols) > 2 || got.Src.IsValid() && got.Dst.IsValid() && got.Src.Addr().Is4() != got.Dst.Addr().Is4() ||
			got.Either && (got.Dst.IsValid() || got.DstPort != 0) {
			t.Errorf("%q is %+v", words, got)
		}
		again, err := ParseFilter(strings.Join(strings.Fields(words), " "))
		if err != nil || !cmp.Equal(got, again, cmpopts.EquateComparable(netip.Prefix{})) {
			t.Errorf("%q is %+v, and then %+v, %v", words, got, again, err)
		}
	})
}
