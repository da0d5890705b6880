package gen

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// kinds are the headers that a frame has to have.
func kinds(t *Tunnel, family int) []pkttest.Kind {
	ip := map[bool]pkttest.Kind{false: pkttest.KindIPv4, true: pkttest.KindIPv6}
	var all []pkttest.Kind
	if t != nil {
		all = append(all, pkttest.KindEther, ip[t.Remote.Is6()])
		switch t.Encapsulation {
		case overlay.VXLAN:
			all = append(all, pkttest.KindUDP, pkttest.KindVXLAN)
		case overlay.Geneve:
			all = append(all, pkttest.KindUDP, pkttest.KindGeneve)
		case overlay.NVGRE:
			all = append(all, pkttest.KindNVGRE)
		}
	}
	return append(all, pkttest.KindEther, ip[family == 6], pkttest.KindUDP)
}

// Every kind of frame, in the smallest, an odd and a large size, is right in every
// length and checksum, and says which flow and place in it that it is of.
func TestFrames(t *testing.T) {
	for name, tunnel := range tunnels() {
		for family, sizes := range map[int][]int{4: {64, 73, 1518}, 6: {84, 99, 1518}} {
			for _, size := range sizes {
				t.Run(fmt.Sprintf("%s IPv%d %d", name, family, size), func(t *testing.T) {
					t.Parallel()
					s := testSender(t, Stream{Frame: size, Family: family, Flows: 50, Sources: 3, Destinations: 4, ID: 9}, tunnel)
					for i := range 120 {
						checkFrame(t, s, tunnel, s.make(t), size, i)
					}
				})
			}
		}
	}
}

func checkFrame(t *testing.T, s *Sender, tunnel *Tunnel, frame []byte, size, i int) {
	t.Helper()
	d := pkttest.Dissect(frame)
	var have []pkttest.Kind
	for _, h := range d.Headers {
		have = append(have, h.Kind)
	}
	if want := kinds(tunnel, s.stream.Family); !slices.Equal(have, want) || len(d.Faults) > 0 {
		pkttest.Errorf(t, []pkttest.Named{{Name: "frame", Bytes: frame}}, "frame %d: %v, want %v; faults: %v", i, have, want, d.Faults)
		t.FailNow()
	}
	if want := size - FCS + tunnel.headerLen(); len(frame) != want {
		t.Fatalf("frame %d: %d bytes, want %d", i, len(frame), want)
	}
	flow := i % 50
	inner := d.Headers[len(d.Headers)-3:]
	checkAddresses(t, inner[1].Bytes, s.stream, flow)
	udp := inner[2]
	if from, to := binary.BigEndian.Uint16(udp.Bytes), binary.BigEndian.Uint16(udp.Bytes[2:]); from != uint16(49152+flow/12) || to != 7 {
		t.Errorf("frame %d: ports %d > %d", i, from, to)
	}
	mark := udp.Body
	place := binary.LittleEndian.Uint64(mark[4:])
	if !bytes.Equal(mark[:4], []byte{0x1f, 0x5e, 9, 1}) || int(place>>40) != flow || place&(1<<40-1) != uint64(i/50) {
		t.Errorf("frame %d: mark % x", i, mark[:18])
	}
	if mark[12] == 0 && mark[13] == 0 && mark[14] == 0 && mark[15] == 0 {
		t.Errorf("frame %d has no time", i)
	}
	if rest := mark[18:]; !bytes.Equal(rest, make([]byte, len(rest))) {
		t.Errorf("frame %d: payload is not 0 behind the mark", i)
	}
	if tunnel != nil {
		checkOuter(t, d.Headers, tunnel)
	}
}

// checkAddresses: RFC 2544 appendix C.2.2 and RFC 5180.
func checkAddresses(t *testing.T, ip []byte, s Stream, flow int) {
	t.Helper()
	source, destination := flow%3, flow/3%4
	want := []string{fmt.Sprintf("198.18.0.%d", 2+source), fmt.Sprintf("198.19.0.%d", 2+destination)}
	have := ip[12:20]
	if s.Family == 6 {
		want = []string{fmt.Sprintf("2001:2:0:1::%d", 2+source), fmt.Sprintf("2001:2:0:2::%d", 2+destination)}
		have = ip[8:40]
	}
	for i, w := range want {
		n := len(have) / 2
		if a, _ := netip.AddrFromSlice(have[i*n:][:n]); a != netip.MustParseAddr(w) {
			t.Errorf("flow %d: address %s, want %s", flow, a, w)
		}
	}
}

func checkOuter(t *testing.T, headers []pkttest.Header, tunnel *Tunnel) {
	t.Helper()
	at := headers[0]
	if !bytes.Equal(at.Bytes[:12], append(mac(dstMAC), mac(srcMAC)...)) {
		t.Errorf("outer addresses % x", at.Bytes)
	}
	inner := headers[len(headers)-3].Bytes
	if !bytes.Equal(inner[:12], append(mac(innerDstMAC), mac(innerSrcMAC)...)) {
		t.Errorf("inner addresses % x", inner)
	}
	ip := headers[1].Bytes
	if want := append(tunnel.Local.AsSlice(), tunnel.Remote.AsSlice()...); !bytes.HasSuffix(ip, want) {
		t.Errorf("outer IP header % x", ip)
	}
	encap := headers[len(headers)-4].Bytes
	if !bytes.Equal(encap[4:7], []byte{0xab, 0xcd, 0xef}) {
		t.Errorf("tunnel header % x", encap)
	}
	if tunnel.Encapsulation == overlay.NVGRE {
		return
	}
	udp := headers[2].Bytes
	if from := binary.BigEndian.Uint16(udp); from < 49152 {
		t.Errorf("outer source port %d", from)
	}
	if check := binary.BigEndian.Uint16(udp[6:]); (check == 0) != tunnel.Remote.Is4() {
		t.Errorf("outer UDP checksum %#x", check)
	}
	if want := tunnel.Encapsulation.DefaultUDPPort(); binary.BigEndian.Uint16(udp[2:]) != want {
		t.Errorf("outer UDP header % x", udp)
	}
}

// So many flows as asked for, each with as many frames.
func TestFlows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ flows, sources, destinations, ports int }{
		{1, 1, 1, 1}, {3, 3, 1, 1}, {1280, 20, 64, 1}, {1281, 20, 64, 2}, {6000, 20, 64, 5},
	} {
		s := testSender(t, Stream{Frame: 64, Flows: c.flows})
		seen := map[string]int{}
		parts := [3]map[string]bool{{}, {}, {}}
		for range 2 * c.flows {
			frame := s.make(t)
			seen[string(frame[26:38])]++ // addresses and ports
			for i, b := range [][]byte{frame[26:30], frame[30:34], frame[34:36]} {
				parts[i][string(b)] = true
			}
		}
		for flow, n := range seen {
			if n != 2 {
				t.Errorf("%d flows: % x has %d frames, want 2", c.flows, flow, n)
			}
		}
		if len(seen) != c.flows || len(parts[0]) != c.sources || len(parts[1]) != c.destinations || len(parts[2]) != c.ports {
			t.Errorf("%d flows: %d of %d sources, %d destinations and %d ports; want %d, %d, %d", c.flows, len(seen), len(parts[0]), len(parts[1]), len(parts[2]), c.sources, c.destinations, c.ports)
		}
	}
}

// A million flows have numbers of their own, without a million frames to test it.
func TestManyFlows(t *testing.T) {
	t.Parallel()
	s := testSender(t, Stream{Frame: 64, Flows: 1_000_000})
	var r genRun
	if err := s.objects.Current.Get(&r); err != nil {
		t.Fatal(err)
	}
	last := 999_999
	r.Flow, r.Source, r.Destination, r.UdpPort, r.Seq = uint32(last), uint32(last%20), uint32(last/20%64), uint32(last/1280), 1<<33
	if err := s.objects.Current.Set(r); err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		flow uint64
		seq  uint64
	}{{999_999, 1 << 33}, {0, 1<<33 + 1}, {1, 1<<33 + 1}} {
		place := binary.LittleEndian.Uint64(s.make(t)[46:])
		if place>>40 != want.flow || place&(1<<40-1) != want.seq {
			t.Errorf("frame %d: flow %d, sequence number %d; want %+v", i, place>>40, place&(1<<40-1), want)
		}
	}
}

// They all come, in turns, and the sink follows each.
func TestManyFlowsLive(t *testing.T) {
	const flows = 1_000_000
	b := newTestbed(t, 1)
	sender := b.sender(t, Stream{Frame: 64, Flows: flows})
	sink := b.newSink(t, SinkOptions{Flows: flows})
	sent, err := sender.Run(t.Context(), Load{Frames: flows + 7, Untimed: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := settled(t.Context(), sink, sent)
	if err != nil {
		t.Fatal(err)
	}
	if got.Frames != sent.Frames || got.Flows+int(sent.Overrun) < flows || got.Gaps > sent.Overrun || got.Reordered+got.Duplicated+got.Unknown != 0 {
		t.Errorf("%+v of %+v", got, sent)
	}
}

// The entropy of the outer header spreads flows and stays the same for each.
func TestEntropy(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"vxlan over IPv4", "nvgre over IPv6"} {
		tunnel := tunnels()[name]
		s := testSender(t, Stream{Frame: 64}, tunnel)
		at, least := 34, 1000 // of 16384 ports
		if tunnel.Encapsulation == overlay.NVGRE {
			at, least = 14+40+6, 250 // of 256 FlowIDs, behind the last byte of the VSID
		}
		spread := map[string]bool{}
		var first []string
		for i := range 2 * DefaultFlows {
			entropy := string(s.make(t)[at:][:2])
			if i < DefaultFlows {
				first = append(first, entropy)
			} else if entropy != first[i-DefaultFlows] {
				t.Fatalf("%s: flow %d changes its entropy", name, i-DefaultFlows)
			}
			spread[entropy] = true
		}
		if len(spread) < least {
			t.Errorf("%s: %d values for %d flows, want %d or more", name, len(spread), DefaultFlows, least)
		}
	}
}

// A mix has exactly its shares, each flow gets all sizes, and every frame is right.
func TestIMIX(t *testing.T) {
	t.Parallel()
	mix := []Share{{1518, 1}, {90, 7}, {594, 4}}
	for _, flows := range []int{1, 12, 50} {
		for name, tunnel := range map[string]*Tunnel{"plain": nil, "geneve": tunnels()["geneve over IPv6"]} {
			s := testSender(t, Stream{IMIX: mix, Family: 6, Flows: flows}, tunnel)
			sizes := map[int]int{}
			perFlow := map[uint64]map[int]bool{}
			for i := range 12 * flows {
				frame := s.make(t)
				if d := pkttest.Dissect(frame); len(d.Faults) > 0 {
					pkttest.Errorf(t, []pkttest.Named{{Name: "frame", Bytes: frame}}, "frame %d of %s: %v", i, name, d.Faults)
				}
				size := len(frame) + FCS - tunnel.headerLen()
				sizes[size]++
				flow := binary.LittleEndian.Uint64(frame[tunnel.headerLen()+62+4:]) >> 40
				if perFlow[flow] == nil {
					perFlow[flow] = map[int]bool{}
				}
				perFlow[flow][size] = true
			}
			for _, share := range mix {
				if sizes[share.Frame] != share.Weight*flows {
					t.Errorf("%s, %d flows: %v, want %v of %d each", name, flows, sizes, mix, flows)
				}
			}
			for flow, sizes := range perFlow {
				if len(sizes) != 3 {
					t.Errorf("%s, %d flows: flow %d has only %v", name, flows, flow, sizes)
				}
			}
		}
	}
}

func TestStreamCheck(t *testing.T) {
	for want, s := range map[string]Stream{
		"frames of 63 bytes are not within 64":                     {Frame: 63},
		"frames of 83 bytes are not within 84 … 16384: headers of": {Frame: 83, Family: 6},
		"frames of 16385 bytes":                                    {Frame: 16385},
		"IP version 5":                                             {Frame: 64, Family: 5},
		"-1 flows of a stream":                                     {Frame: 64, Flows: -1},
		"16777217 flows":                                           {Frame: 64, Flows: MaxFlows + 1},
		"65537 flows are more than 2 sources, 2":                   {Frame: 64, Flows: 65537, Sources: 2, Destinations: 2},
		"70000 sources do not fit into 198.18.0.0/16":              {Frame: 64, Sources: 70000},
		"network 2001:2::/64 of the sources is not one of IPv4":    {Frame: 64, From: netip.MustParsePrefix("2001:2::/64")},
		"network 198.19.0.1/16 of the destinations":                {Frame: 64, To: netip.MustParsePrefix("198.19.0.1/16")},
		"cannot be a mix":                                          {Frame: 64, IMIX: []Share{{64, 1}}},
		"weight 0 of 64 bytes":                                     {IMIX: []Share{{64, 0}}},
		"the weights of a mix add up to 70":                        {IMIX: []Share{{64, 63}, {128, 7}}},
		"9 sizes in a mix":                                         {IMIX: slices.Repeat([]Share{{64, 1}}, 9)},
	} {
		if err := s.Check(); err == nil || !bytes.Contains([]byte(err.Error()), []byte(want)) {
			t.Errorf("%+v: %v, want an error with %q", s, err, want)
		}
	}
	if err := (Stream{Frame: 64, Flows: 1_000_000}).Check(); err != nil {
		t.Error(err)
	}
}

func TestTunnelCheck(t *testing.T) {
	good := *tunnels()["geneve over IPv4"]
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Tunnel){
		"not two addresses":       func(t *Tunnel) { t.Local = netip.MustParseAddr("2001:db8::1") },
		"more than 24 bits":       func(t *Tunnel) { t.VNI = 1 << 24 },
		"vxlan has no options":    func(t *Tunnel) { t.Encapsulation, t.Options = overlay.VXLAN, make([]byte, 4) },
		"options of 64 bytes":     func(t *Tunnel) { t.Options = make([]byte, 64) },
		"is not an encapsulation": func(t *Tunnel) { t.Encapsulation = "gue" },
		"both are needed":         func(t *Tunnel) { t.DstMAC = nil },
	} {
		tunnel := good
		change(&tunnel)
		if err := tunnel.Check(); err == nil || !bytes.Contains([]byte(err.Error()), []byte(want)) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

// A genome's frames come in its order, over and over, whatever the flows.
func TestGenome(t *testing.T) {
	imix, order, err := Genome("aacaab")
	if err != nil {
		t.Fatal(err)
	}
	s := testSender(t, Stream{IMIX: imix, Order: order, Flows: 4, Sources: 2, Destinations: 2})
	for i := range 40 {
		if want := []int{64, 64, 256, 64, 64, 128}[i%6] - FCS; len(s.make(t)) != want {
			t.Fatalf("frame %d is not of %d bytes", i, want)
		}
	}
	for _, text := range []string{"az", "A", "ä", "k"} {
		if _, _, err := Genome(text); err == nil {
			t.Errorf("%q is no error", text)
		}
	}
	if err := (Stream{IMIX: imix, Order: append(order, 0)}).Check(); err == nil {
		t.Error("an order beside its weights")
	}
}
