package datapath

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// Verdicts of XDP programs (enum xdp_action).
const (
	xdpDrop     verdict = 1
	xdpPass     verdict = 2
	xdpRedirect verdict = 4
)

// xdpMD is the kernel's struct xdp_md as BPF_PROG_TEST_RUN takes it.
type xdpMD struct{ Data, DataEnd, DataMeta, IngressIfindex, RXQueueIndex, EgressIfindex uint32 }

// transitWorld is a routedWorld whose underlay and uplink have transit programs.
func transitWorld(t testing.TB, to way, change ...func(*Config, *fib.Tables)) *world {
	t.Helper()
	return routedWorld(t, to, append([]func(*Config, *fib.Tables){withTransit}, change...)...)
}

// withTransit has adapt plan the programs, so that the pool keeps them too.
func withTransit(c *Config, _ *fib.Tables) { c.Transit = true }

// planTransit plans transit programs for the underlay and the uplink.
func (w *world) planTransit() {
	w.tables.Transit = []fib.Transit{
		{Ifindex: w.dev["u0"].Index, MAC: overlay.MAC(w.dev["u0"].HardwareAddr), Underlay: true, CsumPartial: true},
		{Ifindex: w.dev["s0"].Index, MAC: overlay.MAC(w.dev["s0"].HardwareAddr), Uplink: true, CsumPartial: true},
	}
	w.tables.TxDevices = []int{w.dev["u0"].Index, w.dev["s0"].Index}
}

// transit runs a packet through the transit program, as if it came from dev.
func (w *world) transit(t testing.TB, dev string, b []byte) (r result) {
	t.Helper()
	w.do(t, func() {
		var err error
		if r, err = runXDP(w.transitOf(dev), w.dev[dev].Index, b); err != nil {
			t.Fatal(err)
		}
	})
	return r
}

func (w *world) transitOf(dev string) kernel.Program {
	return w.dp.Links.links[hook{roleTransit, w.dev[dev].Index}].program
}

// runXDP must be called in the device's namespace.
func runXDP(prog kernel.Program, ifindex int, b []byte) (result, error) {
	out := make([]byte, len(b)+512)
	opts := &ebpf.RunOptions{Data: b, DataOut: out, Context: xdpMD{DataEnd: uint32(len(b)), IngressIfindex: uint32(ifindex)}}
	ret, err := prog.Run(opts)
	if err != nil {
		return result{}, fmt.Errorf("run with %d bytes from ifindex %d: %w", len(b), ifindex, err)
	}
	return result{verdict(ret), opts.DataOut}, nil
}

// passing are packets between tunnels and uplinks.
func passing() (list []routeCase) {
	through := func(from string) bool { return from == "first" || from == "second" || from == "s0" }
	for _, c := range append(routeCases(),
		routeCase{"L3 to uplink", "main-l3", "first", farMAC, l3MAC, "udp 10.0.3.7:53 > 203.0.113.5:1 30", "up", "s0", uplinkMAC, ispMAC},
		routeCase{"L3 to uplink, IPv6", "main-l3", "second", farMAC2, l3MAC, "tcp [2001:db8:3::7]:53 > [2001:db8:77::5]:1 30", "up", "s0", uplinkMAC, ispMAC},
		routeCase{"uplink to L3", "up", "s0", ispMAC, uplinkMAC, "udp 203.0.113.5:53 > 10.0.3.7:1 30", "main-l3", "first", l3MAC, farMAC},
		routeCase{"uplink to L3, IPv6", "up", "s0", ispMAC, uplinkMAC, "icmp 2001:db8:77::5 > 2001:db8:3::7 40", "main-l3", "first", l3MAC, farMAC},
		routeCase{"uplink back to the uplink", "up", "s0", ispMAC, uplinkMAC, "udp 203.0.113.5:53 > 203.0.113.9:1 30", "up", "s0", uplinkMAC, ispMAC},
	) {
		if through(c.from) && through(c.at) {
			list = append(list, c)
		}
	}
	return list
}

// in is the frame of a case as it arrives, and at which device.
func (c routeCase) in(w *world, words string) (dev string, b []byte) {
	frame := pkttest.Frame(c.src, c.dst, words)
	if c.from == "s0" {
		return c.from, frame
	}
	return "u0", w.outerIn(c.segment, w.family.remotes[map[string]int{"first": 0, "second": 1}[c.from]]).Wrap(padded(frame))
}

// The transit program and tc are one data path: each packet ends the same way,
// with the same bytes and counters, whether the transit program takes it or
// leaves it to tc.
func TestTransitChangesNothing(t *testing.T) {
	t.Parallel()
	for _, cache := range []bool{true, false} {
		eachWay(t, func(t *testing.T, to way) {
			set := func(c *Config, _ *fib.Tables) { c.FlowCache.Enabled = cache }
			with, without := transitWorld(t, to, set), routedWorld(t, to, set)
			r := newRandom(t)
			verdicts, offered := map[verdict]int{}, often(400)
			var drops [2]map[string]uint64
			before := [2]PortCounters{with.uplink(t), without.uplink(t)}
			drops[0], _ = with.counted(t, func() {
				drops[1], _ = without.counted(t, func() {
					for i := range offered {
						from, in := r.passing(with)
						with.refill(t)
						without.refill(t)
						want := without.offerHeld(t, from, in)
						if want.verdict == 0 { // TEST_RUN does not take it
							continue
						}
						got, took := with.offerBoth(t, from, in)
						verdicts[took]++
						if got.verdict != want.verdict || got.verdict == forwarded && !bytes.Equal(got.out, want.out) {
							pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: in}, {Name: "transit", Bytes: got.out}, {Name: "tc", Bytes: want.out}},
								"packet %d from %s: %v with the transit program (verdict %d), %v without", i, from, got.verdict, took, want.verdict)
							return
						}
					}
				})
			})
			if !maps.Equal(drops[0], drops[1]) {
				t.Errorf("drops %v with the transit program, %v without", drops[0], drops[1])
			}
			if verdicts[xdpRedirect] < offered/5 || verdicts[xdpPass] < offered/15 || verdicts[xdpDrop] < offered/75 {
				t.Errorf("verdicts %v: too few of one to say anything", verdicts)
			}
			if got, want := with.uplink(t).less(before[0]), without.uplink(t).less(before[1]); got != want {
				t.Errorf("counters %+v of the uplink with the transit program, %+v without", got, want)
			}
		})
	}
}

// offerBoth offers a packet to the transit program and, when that leaves it, to tc.
// A packet that it sends or drops has tc's verdict for that.
func (w *world) offerBoth(t testing.TB, from string, b []byte) (r result, took verdict) {
	t.Helper()
	if from != "u0" && from != "s0" {
		return w.offerHeld(t, from, b), xdpPass
	}
	w.do(t, func() {
		var err error
		if r, err = runXDP(w.transitOf(from), w.dev[from].Index, b); err != nil && !errors.Is(err, unix.EINVAL) {
			t.Fatal(err)
		}
	})
	switch took = r.verdict; took {
	case xdpRedirect:
		return result{forwarded, r.out}, took
	case xdpDrop:
		return result{dropped, nil}, took
	}
	if took == xdpPass && !bytes.Equal(r.out, b) && !bytes.Equal(r.out, b[:datagramEnd(b)]) {
		pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: b}, {Name: "left", Bytes: r.out}}, "the transit program changed what it left to tc")
	}
	return w.offerHeld(t, from, r.out), took
}

// datagramEnd is where the outer datagram ends, or len(b): a damaged length leaves bytes
// behind it, which are not delivered.
func datagramEnd(b []byte) int {
	if len(b) < etherLen+ipv6Len+8 {
		return len(b)
	}
	end, l4, proto := etherLen+int(binary.BigEndian.Uint16(b[etherLen+2:])), etherLen+ipv4Len, b[etherLen+9]
	if b[12] == 0x86 {
		end, l4, proto = etherLen+ipv6Len+int(binary.BigEndian.Uint16(b[etherLen+4:])), etherLen+ipv6Len, b[etherLen+6]
	}
	if proto == pkttest.ProtoUDP {
		end = l4 + int(binary.BigEndian.Uint16(b[l4+4:]))
	}
	return min(end, len(b))
}

// offerHeld offers a packet to tc until it is no longer held as if it had overtaken
// another.
func (w *world) offerHeld(t testing.TB, from string, b []byte) (r result) {
	t.Helper()
	for range 1000 {
		if r = w.offer(t, from, b); r.verdict != forwarded || !bytes.Equal(r.out, b) {
			break
		}
	}
	return r
}

// uplink is what was counted at the uplink's port.
func (w *world) uplink(t *testing.T) PortCounters {
	t.Helper()
	ports, err := w.dp.Traffic.Ports()
	must(t, err)
	return ports["s0"]
}

func (c PortCounters) less(o PortCounters) PortCounters {
	return PortCounters{
		Rx:    Counters{c.Rx.Packets - o.Rx.Packets, c.Rx.Bytes - o.Rx.Bytes},
		Tx:    Counters{c.Tx.Packets - o.Tx.Packets, c.Tx.Bytes - o.Tx.Bytes},
		Drops: c.Drops - o.Drops,
	}
}

// passing is a packet for a transit program, mostly: many pass through, some are
// for ports, for the edge, for nobody, too large, or damaged.
func (r random) passing(w *world) (from string, b []byte) {
	if r.IntN(5) == 0 {
		return r.offered(w)
	}
	list := passing()
	c := list[r.IntN(len(list))]
	words := c.words
	switch r.IntN(8) {
	case 0:
		words = fmt.Sprintf("ttl %d %s", r.IntN(3), words)
	case 1:
		words = fmt.Sprintf("tos %d %s", r.IntN(256), words)
	case 2:
		words = "vlan 7 " + words
	case 3:
		words = vports[r.IntN(len(vports))].words
	case 4:
		words = slices.Concat(syns, oversize)[r.IntN(len(syns)+len(oversize))]
	}
	dev, b := c.in(w, words)
	if dev == "u0" && r.IntN(4) == 0 {
		at := etherLen + 1 // TOS
		if w.family.tep.Is4() {
			mark := byte(r.IntN(4))
			sum := binary.BigEndian.Uint16(b[etherLen+10:])
			b[at] |= mark
			binary.BigEndian.PutUint16(b[etherLen+10:], ^onesSum([]byte{byte(^sum >> 8), byte(^sum), 0, mark}))
		} else {
			b[at] |= byte(r.IntN(4)) << 4
		}
	}
	return dev, r.damaged(b)
}

// syns are SYNs whose MSS is clamped, or not; oversize packets fit, or not.
var (
	syns = []string{
		"tcp 203.0.113.5:53 > 10.0.3.7:1 syn mss 9000", "tcp 203.0.113.5:53 > 10.0.2.14:1 syn nop mss 9000", "tcp 203.0.113.5:53 > 10.0.2.14:1 syn mss 536",
		"tcp [2001:db8:77::5]:53 > [2001:db8:3::7]:1 syn mss 9000", "tcp 10.0.3.7:1 > 203.0.113.5:53 syn mss 9000",
	}
	oversize = []string{
		"udp 203.0.113.5:1 > 10.0.3.7:2 1372", "udp 203.0.113.5:1 > 10.0.3.7:2 1402", "df udp 203.0.113.5:1 > 10.0.3.7:2 1430", "udp 203.0.113.5:1 > 10.0.3.7:2 1472",
		"udp 10.0.3.7:1 > 203.0.113.5:2 1422", "udp 10.0.3.7:1 > 203.0.113.5:2 1423", "udp [2001:db8:77::5]:1 > [2001:db8:3::7]:2 1352", "udp [2001:db8:77::5]:1 > [2001:db8:3::7]:2 1412",
	}
)

// What the next interface does not take has its reason: here the other end of a veth that has neither a program nor GRO.
func TestNotTakenIsCounted(t *testing.T) {
	w := transitWorld(t, ways()[0])
	for _, c := range passing() {
		if c.name != "uplink to L3" {
			continue
		}
		dev, in := c.in(w, c.words)
		const packets = 40
		drops, _ := w.counted(t, func() {
			w.do(t, func() {
				opts := &ebpf.RunOptions{
					Data: in, Repeat: packets, Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES,
					Context: xdpMD{DataEnd: uint32(len(in)), IngressIfindex: uint32(w.dev[dev].Index)},
				}
				if _, err := w.transitOf(dev).Run(opts); err != nil {
					t.Fatal(err)
				}
			})
		})
		if drops["devmap-drop"] != packets || sum(drops) != packets {
			t.Errorf("drops %v of %d packets", drops, packets)
		}
		return
	}
	t.Fatal("no case")
}

// A frame whose checksum the sender left to its device is tc's: there the kernel knows that it is to be filled in. With a right one, or none, it passes.
func TestTransitLeavesCsumPartial(t *testing.T) {
	eachWay(t, func(t *testing.T, to way) {
		w := transitWorld(t, to)
		for _, c := range passing() {
			frame := pkttest.Frame(c.src, c.dst, c.words)
			at, seed := pseudoSum(frame)
			if at == 0 {
				continue
			}
			dev, in := c.in(w, c.words)
			binary.BigEndian.PutUint16(in[len(in)-len(padded(frame))+at:], seed)
			for i := range 3 {
				if got := w.transit(t, dev, in); got.verdict != xdpPass || !bytes.Equal(got.out, in) {
					t.Fatalf("%s, packet %d: verdict %d, want it left to tc", c.name, i, got.verdict)
				}
			}
			dev, in = c.in(w, c.words)
			if got := w.transit(t, dev, in); got.verdict != xdpRedirect {
				t.Errorf("%s: verdict %d of a packet with a checksum", c.name, got.verdict)
			}
		}
	})
}

// pseudoSum is where the checksum of a TCP or UDP frame without tags stands, and the
// sum of its pseudo header; 0 for others.
func pseudoSum(frame []byte) (at int, seed uint16) {
	ip, proto, l4 := frame[etherLen:], byte(0), 0
	var pseudo []byte
	switch binary.BigEndian.Uint16(frame[12:]) {
	case etherTypeIPv4:
		proto, l4 = ip[9], ipv4Len
		pseudo = append(pseudo, ip[12:20]...)
		pseudo = binary.BigEndian.AppendUint16(append(pseudo, 0, proto), binary.BigEndian.Uint16(ip[2:])-ipv4Len)
	case etherTypeIPv6:
		proto, l4 = ip[6], ipv6Len
		pseudo = append(pseudo, ip[8:40]...)
		pseudo = binary.BigEndian.AppendUint16(append(pseudo, 0, proto), binary.BigEndian.Uint16(ip[4:]))
	}
	switch proto {
	case 6:
		return etherLen + l4 + 16, onesSum(pseudo)
	case protoUDP:
		return etherLen + l4 + 6, onesSum(pseudo)
	}
	return 0, 0
}

// An interface's program is swapped for one of another kind, in and after the driver.
func TestTransitModes(t *testing.T) {
	t.Parallel()
	w := transitWorld(t, ways()[0])
	for _, change := range []func(*fib.Transit){
		func(d *fib.Transit) { d.AsksTags = true },
		func(d *fib.Transit) { d.AsksTags, d.Generic = false, true },
		func(d *fib.Transit) { d.Generic = false },
		func(d *fib.Transit) { d.CsumPartial = false },
	} {
		for i := range w.tables.Transit {
			change(&w.tables.Transit[i])
		}
		w.apply(t)
		if refused := w.dp.Links.Refused(); len(refused) > 0 {
			t.Fatalf("%+v: %v", w.tables.Transit[0], refused)
		}
		role := roleTransit
		if w.tables.Transit[0].Generic {
			role = roleGeneric
		}
		for _, dev := range []string{"u0", "s0"} {
			if a := w.dp.Links.links[hook{role, w.dev[dev].Index}]; a == nil || !isAttached(a.link, w.dev[dev].Index) {
				t.Errorf("%+v: nothing on %s", w.tables.Transit[0], dev)
			}
		}
	}
}

// What a driver refuses is said, and tried again after a while, or when it is asked for something else: each try has the kernel verify a program.
func TestRefusedTransitProgram(t *testing.T) {
	t.Parallel()
	w := transitWorld(t, ways()[0])
	loopback, err := w.nl.LinkByName("lo") // its driver takes none
	must(t, err)
	h := hook{roleTransit, loopback.Attrs().Index}
	last := len(w.tables.Transit)
	w.tables.Transit = append(w.tables.Transit, fib.Transit{Ifindex: h.ifindex, Uplink: true})
	apply := func() time.Time {
		t.Helper()
		w.apply(t)
		if why := w.dp.Links.Refused()[h.ifindex]; !strings.Contains(why, "not supported") || len(w.dp.Links.Refused()) != 1 {
			t.Fatalf("refused: %v", w.dp.Links.Refused())
		}
		return w.dp.Links.refused[h].at
	}
	first := apply()
	if at := apply(); !at.Equal(first) {
		t.Error("it is tried again at once")
	}
	w.tables.Transit[last].CsumPartial = true
	second := apply()
	if second.Equal(first) {
		t.Error("a program of another kind is not tried")
	}
	r := w.dp.Links.refused[h]
	r.at = r.at.Add(-refusalRetry)
	w.dp.Links.refused[h] = r
	if at := apply(); at.Equal(r.at) {
		t.Error("it is never tried again")
	}
	w.tables.Transit = w.tables.Transit[:last]
	w.apply(t)
	if refused := w.dp.Links.Refused(); len(refused) > 0 {
		t.Errorf("refused, of a device that is not asked for: %v", refused)
	}
}
