package latency

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/selvage/selvage/internal/overlay"
)

// Ports of the guests that tell policies apart. Nobody listens on any, so what passes is
// answered by "refused".
const (
	forbiddenPort = 7    // no policy lets it pass
	firstMarker   = 4000 // the policy of the sweep's n-th number of rules lets pass this plus n
)

// sweepPolicy is a policy of a number of rules as real ones are made: the first ones are
// about other networks, other hosts of the guests' network and other ports, and none of
// these matches what is measured. The last one lets the guests' traffic pass, and the
// default drops. The same arguments give the same rules.
func sweepPolicy(rules, marker int) *overlay.Firewall {
	fw := &overlay.Firewall{
		Default: overlay.Drop, NonIP: overlay.Allow, LogRate: 100, Timeouts: overlay.DefaultTimeouts,
		// As many as the kernel's table has by default where there is enough memory.
		Sizes: overlay.ConnectionSizes{Connections: 262144, HalfOpen: 65536},
		Rules: make([]overlay.Rule, 0, rules),
	}
	fw.Timeouts.TimeWait = 20 * time.Second // so that thousands a second fit
	for i := range rules - 1 {
		fw.Rules = append(fw.Rules, otherRule(i))
	}
	fw.Groups = []overlay.Group{{Name: "guests", Members: []overlay.Member{{Prefix: guestsV4}, {Prefix: guestsV6}}}}
	guests := []overlay.Member{{Group: "guests"}}
	tcp := []overlay.PortRange{
		one(uint16(firstMarker + marker)), {First: 5200, Last: 5499}, one(9), // the instruments', and Reach's
	}
	fw.Rules = append(fw.Rules, overlay.Rule{
		Section: sweepSection, Name: "guests", Verdict: overlay.Allow, Direction: overlay.Both, From: guests, To: guests,
		Services: []overlay.Service{service(6, tcp...), service(17, overlay.PortRange{First: 5200, Last: 5499})},
	})
	return fw
}

const sweepSection = "sweep"

// Networks of the guests.
var (
	guestsV4 = netip.MustParsePrefix("10.0.0.0/24")
	guestsV6 = netip.MustParsePrefix("fd00::/64")
)

func one(port uint16) overlay.PortRange { return overlay.PortRange{First: port, Last: port} }

func service(proto int, ports ...overlay.PortRange) overlay.Service {
	return overlay.Service{Protocol: proto, Ports: ports, ICMPType: -1, ICMPCode: -1}
}

// otherRule is the i-th rule that does not match the guests' traffic. One in four is about
// the guests as sources and one about them as destinations, so that a linear search has to
// compare more than one field of it.
func otherRule(i int) overlay.Rule {
	r := overlay.Rule{
		Section: sweepSection, Name: fmt.Sprintf("other-%06d", i), Verdict: overlay.Allow, Direction: overlay.Both,
		From: []overlay.Member{{Prefix: spreadNetwork(172, 16, 4, i, 24+i%5)}}, To: []overlay.Member{{Prefix: spreadNetwork(192, 168, 0, i, 22+i%11)}},
	}
	if i%7 == 6 {
		r.Verdict = overlay.Drop
	}
	switch i % 4 {
	case 1:
		r.From = []overlay.Member{{Prefix: guestsV4}}
	case 3:
		r.From, r.To = nil, []overlay.Member{{Prefix: guestsV4}}
	}
	proto := 6
	if i%3 == 2 {
		proto = 17
	}
	// Above the ports that are measured; no two rules of a protocol are alike before 120,000.
	r.Services = []overlay.Service{service(proto, one(uint16(10000+(i/3)%50000)))}
	return r
}

// spreadNetwork is a prefix in a.b.0.0 that differs with i: spread bits of i are in the second byte.
func spreadNetwork(a, b byte, spread, i, bits int) netip.Prefix {
	h := uint32(i) * 2654435761 // Knuth's multiplicative hash: neighbours lie apart
	second := b + byte(i>>16)&(1<<spread-1)
	addr := netip.AddrFrom4([4]byte{a, second, byte(h >> 24), byte(h >> 16)})
	return netip.PrefixFrom(addr, bits).Masked()
}
