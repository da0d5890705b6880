package gen

import (
	"maps"
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/tier"
)

func testSink(t *testing.T, o SinkOptions) *Sink {
	t.Helper()
	tier.Root(t)
	s, err := loadSink(o)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func (s *Sink) take(t *testing.T, frame []byte) uint32 {
	t.Helper()
	action, _ := run(t, s.receiver.program, frame)
	return action
}

func (s *Sink) report(t *testing.T) Report {
	t.Helper()
	r, err := s.Read()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// What comes is told apart by sequence numbers: in order, missing, late, twice.
func TestSequences(t *testing.T) {
	s := testSink(t, SinkOptions{Flows: 3})
	t.Parallel()
	up := func(from, to uint64) []uint64 {
		var all []uint64
		for i := from; i < to; i++ {
			all = append(all, i)
		}
		return all
	}
	for name, c := range map[string]struct {
		seqs                        []uint64
		gaps, reordered, duplicated uint64
	}{
		"in order":                       {seqs: up(0, 200)},
		"the first are missing":          {seqs: up(3, 10), gaps: 3},
		"one is missing":                 {seqs: []uint64{0, 1, 3}, gaps: 1},
		"exchanged":                      {seqs: []uint64{0, 2, 1, 3}, reordered: 1},
		"twice at once":                  {seqs: []uint64{0, 1, 1, 2}, duplicated: 1},
		"twice later":                    {seqs: []uint64{0, 1, 2, 0}, duplicated: 1},
		"late and twice":                 {seqs: []uint64{0, 2, 1, 1}, reordered: 1, duplicated: 1},
		"missing, late and twice":        {seqs: []uint64{0, 5, 2, 2, 5, 6}, gaps: 3, reordered: 1, duplicated: 2},
		"backwards":                      {seqs: []uint64{4, 3, 2, 1, 0}, reordered: 4},
		"63 ahead":                       {seqs: []uint64{0, 63, 1, 0, 63}, gaps: 61, reordered: 1, duplicated: 2},
		"64 ahead":                       {seqs: []uint64{0, 64, 1, 64}, gaps: 62, reordered: 1, duplicated: 1},
		"a thousand ahead, filled up":    {seqs: append([]uint64{1000}, up(0, 1000)...), reordered: 1000},
		"old ones twice without a gap":   {seqs: append(up(0, 500), 7), duplicated: 1},
		"a gap, and much later the rest": {seqs: append(append(up(0, 5), up(6, 300)...), 5), reordered: 1},
		"40 bits":                        {seqs: []uint64{1<<40 - 2, 1<<40 - 1}, gaps: 1<<40 - 2},
	} {
		if err := s.Reset(1); err != nil {
			t.Fatal(err)
		}
		for _, seq := range c.seqs {
			if action := s.take(t, crafted(marked(1, seq, 0), 0)); action != actionDrop {
				t.Fatalf("%s: action %d", name, action)
			}
		}
		r := s.report(t)
		if r.Frames != uint64(len(c.seqs)) || r.Flows != 1 || r.Gaps != c.gaps || r.Reordered != c.reordered || r.Duplicated != c.duplicated {
			t.Errorf("%s: %d frames of %d flows, %d gaps, %d reordered, %d duplicated; want %d, 1 flow, %d, %d, %d",
				name, r.Frames, r.Flows, r.Gaps, r.Reordered, r.Duplicated, len(c.seqs), c.gaps, c.reordered, c.duplicated)
		}
		if c.gaps+c.reordered+c.duplicated > 0 {
			if len(r.Worst) != 1 || r.Worst[0].Flow != 1 || r.Worst[0].Frames != r.Frames-c.duplicated {
				t.Errorf("%s: worst flows %+v", name, r.Worst)
			}
		} else if len(r.Worst) > 0 {
			t.Errorf("%s: worst flows %+v", name, r.Worst)
		}
	}
}

func TestLost(t *testing.T) {
	for _, c := range []struct {
		r    Report
		sent uint64
		want uint64
	}{
		{Report{Frames: 90}, 100, 10}, {Report{Frames: 100, Duplicated: 10}, 100, 10}, {Report{Frames: 101, Duplicated: 1}, 100, 0}, {Report{Frames: 110}, 100, 0},
	} {
		if lost := c.r.Lost(Sent{Frames: c.sent}); lost != c.want {
			t.Errorf("%+v of %d: %d lost, want %d", c.r, c.sent, lost, c.want)
		}
	}
}

// The worst flows are in order, and not more of them than are asked for.
func TestWorstFlows(t *testing.T) {
	s := testSink(t, SinkOptions{Flows: 5000})
	t.Parallel()
	for flow := range 20 {
		s.take(t, crafted(marked(flow*200, uint64(flow), 0), 0)) // flow frames are missing
	}
	r := s.report(t)
	if len(r.Worst) != WorstFlows || r.Flows != 20 || r.Gaps != 190 {
		t.Fatalf("%d flows, %d gaps, worst %+v", r.Flows, r.Gaps, r.Worst)
	}
	for i, f := range r.Worst {
		if f.Flow != (19-i)*200 || f.Gaps != uint64(19-i) {
			t.Errorf("worst flow %d is %+v", i, f)
		}
	}
	flows, err := s.Flows()
	if err != nil || len(flows) != 20 || flows[3].Flow != 600 {
		t.Errorf("flows %+v, %v", flows, err)
	}
}

// Frames that are not the stream's are counted by kind, and go where they should.
func TestForeign(t *testing.T) {
	other := func(change func(mark []byte)) []byte {
		mark := marked(0, 0, 0)
		change(mark)
		return crafted(mark, 0)
	}
	packet := func(words string) []byte { return pkttest.Frame(srcMAC, dstMAC, words) }
	outer := pkttest.Outer{SrcMAC: srcMAC, DstMAC: dstMAC, Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), VNI: 7}
	s := testSink(t, SinkOptions{Flows: 1, Latency: true})
	t.Parallel()
	for name, c := range map[string]struct {
		frame  []byte
		kind   string
		action uint32
	}{
		"ARP":                {packet("arp 10.0.0.1 ? 10.0.0.2"), "arp", actionPass},
		"solicitation":       {packet("ns 2001:db8::1 ? 2001:db8::2"), "nd", actionPass},
		"advertisement":      {packet("na 2001:db8::2 ! 2001:db8::1"), "nd", actionPass},
		"ping":               {packet("icmp 10.0.0.1 > 10.0.0.2 56"), "icmp", actionPass},
		"TCP":                {packet("tcp 10.0.0.1:1 > 10.0.0.2:2 syn 0"), "ip", actionPass},
		"UDP":                {packet("udp 10.0.0.1:1 > 10.0.0.2:2 18"), "ip", actionPass},
		"UDP, IPv6":          {packet("udp [2001:db8::1]:53 > [2001:db8::2]:53 18"), "ip", actionPass},
		"fragment":           {packet("fragment 10.0.0.1 > 10.0.0.2 1480 64"), "ip", actionPass},
		"LLDP":               {packet("lldp"), "ethertype", actionPass},
		"cut":                {packet("udp 10.0.0.1:1 > 10.0.0.2:2 18")[:30], "short", actionPass},
		"another stream":     {other(func(m []byte) { m[2] = 1 }), "stream", actionPass},
		"another run":        {other(func(m []byte) { m[3] = 2 }), "stale", actionDrop},
		"another magic":      {other(func(m []byte) { m[0]++ }), "ip", actionPass},
		"ARP in a tunnel":    {outer.Wrap(packet("arp 10.0.0.1 ? 10.0.0.2")), "arp", actionPass},
		"no frame in VXLAN":  {outer.Wrap(nil), "short", actionPass},
		"stream in a tunnel": {outer.Wrap(other(func(m []byte) { m[2] = 1 })), "stream", actionPass},
	} {
		if err := s.Reset(1); err != nil {
			t.Fatal(err)
		}
		if action := s.take(t, c.frame); action != c.action {
			t.Errorf("%s: action %d, want %d", name, action, c.action)
		}
		r := s.report(t)
		if want := map[string]uint64{c.kind: 1}; !maps.Equal(r.Foreign, want) || r.Frames != 0 || r.Flows != 0 {
			t.Errorf("%s: foreign %v, want %v; %d frames", name, r.Foreign, want, r.Frames)
		}
	}
}

// The sink knows the frames of every tunnel, tagged ones and other ports too.
func TestAround(t *testing.T) {
	sink := testSink(t, SinkOptions{Flows: 2, Stream: 200})
	t.Parallel()
	for name, tunnel := range tunnels() {
		for _, family := range []int{4, 6} {
			sender := testSender(t, Stream{Frame: 100, Family: family, Flows: 2, ID: 200}, tunnel)
			if err := sink.Reset(1); err != nil {
				t.Fatal(err)
			}
			for range 4 {
				sink.take(t, sender.make(t))
			}
			kind, length := "plain", 96+tunnel.headerLen()
			if tunnel != nil {
				kind = string(tunnel.Encapsulation)
			}
			r := sink.report(t)
			if want := map[string]uint64{kind: 4}; !maps.Equal(r.Around, want) || r.Gaps != 0 || r.Flows != 2 || r.Shortest != length || r.Longest != length || r.Bytes != uint64(4*length) {
				t.Errorf("%s IPv%d: around %v, want %v; %+v", name, family, r.Around, want, r)
			}
		}
	}
	mark := marked(0, 0, 0)
	tagged := pkttest.Packet(pkttest.Ether(srcMAC, dstMAC), pkttest.VLAN(7), pkttest.IPv4("198.18.0.2", "198.19.0.2"), pkttest.UDP(1, 2), pkttest.Bytes(mark))
	outer := pkttest.Outer{SrcMAC: srcMAC, DstMAC: dstMAC, Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), DstPort: 8472}
	geneve := outer
	geneve.Encapsulation, geneve.DstPort = overlay.Geneve, 1234
	sink = testSink(t, SinkOptions{VXLANPort: 8472, GenevePort: 1234})
	for _, frame := range [][]byte{tagged, outer.Wrap(tagged), geneve.Wrap(tagged)} {
		sink.take(t, frame)
	}
	if r := sink.report(t); !maps.Equal(r.Around, map[string]uint64{"plain": 1, "vxlan": 1, "geneve": 1}) {
		t.Errorf("around %v, foreign %v", r.Around, r.Foreign)
	}
}

// A frame that is cut anywhere before the end of its mark is never counted, nor sent back.
func TestCut(t *testing.T) {
	sink := testSink(t, SinkOptions{Flows: 1})
	reflector := testReflector(t, ReflectorOptions{})
	t.Parallel()
	for name, tunnel := range tunnels() {
		sender := testSender(t, Stream{Frame: 84, Family: 6, Flows: 1}, tunnel)
		frame := sender.make(t)
		if err := sink.Reset(1); err != nil {
			t.Fatal(err)
		}
		for n := 14; n < len(frame); n++ {
			if action := sink.take(t, frame[:n]); action != actionPass {
				t.Errorf("%s cut to %d bytes: sink's action %d", name, n, action)
			}
			if action, _ := run(t, reflector.receiver.program, frame[:n]); action != actionPass {
				t.Errorf("%s cut to %d bytes: reflector's action %d", name, n, action)
			}
		}
		if r := sink.report(t); r.Frames > 0 || r.Foreign["short"] == 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// Reset forgets all, and old frames do not come back.
func TestReset(t *testing.T) {
	s := testSink(t, SinkOptions{Flows: 10_000, Latency: true})
	t.Parallel()
	for _, flow := range []int{0, 4095, 4096, 9999, 10_000} {
		s.take(t, crafted(marked(flow, 5, 1), 0))
	}
	s.take(t, pkttest.Frame(srcMAC, dstMAC, "lldp"))
	if r := s.report(t); r.Flows != 4 || r.Gaps != 20 || r.Unknown != 1 || r.Latency.Count != 5 || r.Foreign["ethertype"] != 1 {
		t.Errorf("before: %+v", r)
	}
	if err := s.Reset(2); err != nil {
		t.Fatal(err)
	}
	r := s.report(t)
	if r.Frames != 0 || r.Bytes != 0 || r.Flows != 0 || r.Gaps != 0 || r.Unknown != 0 || r.Latency.Count != 0 || len(r.Foreign) > 0 || len(r.Around) > 0 {
		t.Errorf("after: %+v", r)
	}
	s.take(t, crafted(marked(0, 0, 0), 0))
	mark := marked(0, 0, 0)
	mark[3] = 2
	s.take(t, crafted(mark, 0))
	if r := s.report(t); r.Frames != 1 || r.Foreign["stale"] != 1 {
		t.Errorf("then: %+v", r)
	}
}
