package gen

import (
	"errors"
	"fmt"
	"net/netip"
)

const (
	// MaxFrame is the largest frame in bytes with FCS, tunnel included: more than adapters send.
	MaxFrame = 16384
	// pageFrame is the largest one that a page has room for, beside what the kernel needs of it.
	pageFrame = 3396
	// MaxFlows is what the mark in a frame can number.
	MaxFlows = 1 << 24

	markLen = 18
	// firstHost of the networks is left of them a gateway.
	firstHost = 2
	// udpEcho is the destination port of RFC 2544 appendix C.2.6.4.
	udpEcho = 7
	// firstUDPPort and udpPorts are the dynamic ports (RFC 6335 section 6).
	firstUDPPort, udpPorts = 49152, 16384

	maxPorts, maxSizes, maxPattern = 8, 8, 64
	mostVLAN                       = 4094
)

func (s Stream) withDefaults() Stream {
	setDefault(&s.Flows, DefaultFlows)
	setDefault(&s.Sources, DefaultSources)
	setDefault(&s.Destinations, DefaultDestinations)
	setDefault(&s.Family, 4)
	from, to := "198.18.0.0/16", "198.19.0.0/16"
	if s.Family == 6 {
		from, to = "2001:2:0:1::/64", "2001:2:0:2::/64"
	}
	setDefault(&s.From, netip.MustParsePrefix(from))
	setDefault(&s.To, netip.MustParsePrefix(to))
	return s
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Check says what is wrong with a Stream.
func (s Stream) Check() error {
	s = s.withDefaults()
	switch {
	case s.Family != 4 && s.Family != 6:
		return fmt.Errorf("IP version %d of a stream is not 4 or 6", s.Family)
	case s.Flows < 1 || s.Flows > MaxFlows:
		return fmt.Errorf("%d flows of a stream are not within 1 … %d", s.Flows, MaxFlows)
	case s.Sources < 1 || s.Destinations < 1:
		return fmt.Errorf("%d sources and %d destinations of a stream: each must be 1 or more", s.Sources, s.Destinations)
	case s.Flows > s.Sources*s.Destinations*udpPorts:
		return fmt.Errorf("%d flows are more than %d sources, %d destinations and %d UDP ports make: give it more sources", s.Flows, s.Sources, s.Destinations, udpPorts)
	}
	return errors.Join(s.checkSizes(), checkHosts(s.From, s.Family, s.Sources, "sources"), checkHosts(s.To, s.Family, s.Destinations, "destinations"))
}

func checkHosts(network netip.Prefix, family, hosts int, what string) error {
	if network != network.Masked() || network.Addr().Is4() != (family == 4) {
		return fmt.Errorf("network %s of the %s is not one of IPv%d", network, what, family)
	}
	bits := network.Addr().BitLen() - network.Bits()
	if bits < 32 && hosts+firstHost > 1<<bits-1 {
		return fmt.Errorf("%d %s do not fit into %s", hosts, what, network)
	}
	return nil
}

// part is the i-th of n parts, which has some of the sources with all flows that come from them.
func (s Stream) part(i, n int) (Stream, error) {
	s = s.withDefaults()
	each, more := s.Sources/n, s.Sources%n
	part := s
	part.shift, part.Sources = i*each+min(i, more), each
	if i < more {
		part.Sources++
	}
	flows := func(sources int) int { // of the first sources
		return s.Flows/s.Sources*sources + min(s.Flows%s.Sources, sources)
	}
	part.firstFlow = flows(part.shift)
	if part.Flows = flows(part.shift+part.Sources) - part.firstFlow; part.Flows < 1 {
		return part, fmt.Errorf("%d flows from %d sources do not divide among %d cores: give it more of both, or fewer cores", s.Flows, s.Sources, n)
	}
	return part, nil
}

// Hosts are the first n hosts of a network that frames are from or for, fewer where it has fewer.
func Hosts(network netip.Prefix, n int) []netip.Addr {
	addr := network.Masked().Addr()
	for range firstHost {
		addr = addr.Next()
	}
	var hosts []netip.Addr
	for range n {
		if !network.Contains(addr) {
			break
		}
		hosts, addr = append(hosts, addr), addr.Next()
	}
	return hosts
}

// shares are the sizes of a stream.
func (s Stream) shares() []Share {
	if len(s.IMIX) > 0 {
		return s.IMIX
	}
	return []Share{{Frame: s.Frame, Weight: 1}}
}

func (s Stream) checkSizes() error {
	if len(s.IMIX) > 0 && s.Frame != 0 {
		return fmt.Errorf("a stream of frames of %d bytes cannot be a mix of sizes too", s.Frame)
	}
	if len(s.IMIX) > maxSizes {
		return fmt.Errorf("%d sizes in a mix are more than %d", len(s.IMIX), maxSizes)
	}
	least := s.headers() + markLen + FCS
	turns := 0
	for _, share := range s.shares() {
		if share.Frame < least || share.Frame > MaxFrame {
			return fmt.Errorf("frames of %d bytes are not within %d … %d: headers of IPv%d, the mark of %d bytes and the FCS need %d",
				share.Frame, least, MaxFrame, s.Family, markLen, least)
		}
		if share.Weight < 1 {
			return fmt.Errorf("weight %d of %d bytes in a mix is not 1 or more", share.Weight, share.Frame)
		}
		turns += share.Weight
	}
	for _, i := range s.Order {
		if int(i) >= len(s.IMIX) || len(s.Order) != turns {
			return fmt.Errorf("an order of %d frames is not one of %d sizes that weigh %d", len(s.Order), len(s.IMIX), turns)
		}
	}
	if turns > maxPattern {
		return fmt.Errorf("the weights of a mix add up to %d, more than %d: divide them by a common factor", turns, maxPattern)
	}
	return nil
}

// headers is the length of Ethernet, IP and UDP header.
func (s Stream) headers() int {
	if s.Family == 6 {
		return 14 + 40 + 8
	}
	return 14 + 20 + 8
}

// pattern is the sizes by turns, as indexes of shares, each spread over the whole
// as evenly as it goes; skip is what the next round of flows begins later, so that
// every flow has all sizes.
func (s Stream) pattern() (turns []uint8, skip int) {
	if len(s.Order) > 0 {
		return s.Order, 0
	}
	shares, total := s.shares(), 0
	for _, share := range shares {
		total += share.Weight
	}
	given := make([]int, len(shares))
	for len(turns) < total {
		best := 0
		owed := func(i int) int { return shares[i].Weight*(len(turns)+1) - given[i]*total }
		for i := range shares {
			if owed(i) > owed(best) {
				best = i
			}
		}
		given[best]++
		turns = append(turns, uint8(best))
	}
	for gcd(s.Flows+skip, total) != 1 {
		skip++
	}
	return turns, skip % total
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// wireLen is the length without FCS of a frame, with what a tunnel adds.
func (s Stream) wireLen(frame int, t *Tunnel) int {
	return frame - FCS + t.headerLen()
}

// largest is the size of the largest frame of the stream.
func (s Stream) largest() int {
	most := 0
	for _, share := range s.shares() {
		most = max(most, share.Frame)
	}
	return most
}

// MeanFrame is the mean size in bytes with FCS of the frames on the wire, with
// what a tunnel adds.
func (s Stream) MeanFrame(t *Tunnel) float64 {
	bytes, weights := 0, 0
	for _, share := range s.shares() {
		bytes += share.Weight * (s.wireLen(share.Frame, t) + FCS)
		weights += share.Weight
	}
	return float64(bytes) / float64(weights)
}
