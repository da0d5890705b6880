package datapath

import (
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// taps listen behind the ports and the underlay.
func (w *world) taps(t *testing.T) map[string]*tap {
	t.Helper()
	taps := map[string]*tap{}
	for _, dev := range []string{"u0", "p0", "p1", "p2"} {
		taps[dev] = w.tap(t, dev+"x", dev)
	}
	return taps
}

// comeIn checks what came out of each device: ports deliver the frame as it was,
// the underlay carries it to the remotes in their order. Other devices send nothing.
func (w *world) comeIn(t *testing.T, taps map[string]*tap, frame []byte, remotes int, ports ...string) {
	t.Helper()
	count := map[string]int{"u0": remotes}
	for _, p := range ports {
		count[p] = 1
	}
	for dev, p := range taps {
		for i, got := range p.receive(t, count[dev]) {
			if dev != "u0" {
				check.Equal(t, "frame at "+dev, frame, got.bytes[:min(len(frame), len(got.bytes))])
				continue
			}
			check.Packet(t, frame, got.bytes,
				check.Ether(w.dev["u0"].HardwareAddr.String(), nextHop),
				check.IP(w.family.tep, w.family.remotes[i], check.TTL(64), check.DontFragment),
				check.UDP(check.DstPort(4789), check.NoChecksum, check.EntropyPort), check.VXLAN(blueVNI), check.Frame(padded(frame)))
		}
	}
}

// Broadcast, multicast and unknown unicast leave for every other member, each copy whole; from the tunnel only for ports.
func TestFlood(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			w := newWorld(t, f)
			taps := w.taps(t)
			for _, words := range innerFrames {
				for _, dst := range []string{all, "01:00:5e:00:00:01", nobody} {
					in := pkttest.Frame(alice, dst, words)
					drops, events := w.counted(t, func() { w.fromPort(t, "p0", in).want(t, in, dropped) })
					w.comeIn(t, taps, in, 2, "p1")
					if events["flooded"] != 1 || events["flood-copy"] != 3 || sum(drops) != 0 {
						t.Errorf("%s: events %v, drops %v", words, events, drops)
					}
					in = padded(pkttest.Frame(bob, dst, words))
					w.fromUnderlay(t, w.fromRemote(in)).want(t, in, dropped)
					w.comeIn(t, taps, in, 0, "p0", "p1")
				}
			}
		})
	}
}

// Real frames on real devices: a whole way from port to tunnel, tunnel to port, port to port.
func TestRealFrames(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			w := newWorld(t, f, static(f))
			taps := w.taps(t)
			for _, words := range innerFrames {
				in := pkttest.Frame(alice, bob, words)
				taps["p0"].send(t, in)
				w.comeIn(t, taps, in, 1)
				in = padded(pkttest.Frame(bob, alice, words))
				taps["u0"].send(t, w.fromRemote(in))
				w.comeIn(t, taps, in, 0, "p0")
				in = pkttest.Frame(carol, alice, words)
				taps["p1"].send(t, in)
				w.comeIn(t, taps, in, 0, "p0")
			}
		})
	}
}

func TestFloodUnresolved(t *testing.T) {
	w := newWorld(t, underIPv4, func(_ *Config, tables *fib.Tables) {
		tables.TEPs[0].NextMAC = overlay.MAC{}
		tables.TEPs[1].Ifindex = 0
	})
	in := pkttest.Frame(alice, all, arp)
	drops, events := w.counted(t, func() { w.fromPort(t, "p0", in) })
	if drops["nexthop-unresolved"] != 1 || drops["no-underlay-route"] != 1 || sum(drops) != 2 || events["flood-copy"] != 1 {
		t.Errorf("drops %v and events %v, want each remote's reason and a copy to p1", drops, events)
	}
}

// A port whose interface has just gone.
func TestFloodToVanishedPort(t *testing.T) {
	t.Parallel()
	w := ownWorld(t, underIPv4)
	l, err := w.nl.LinkByName("p1")
	must(t, err)
	must(t, w.nl.LinkDel(l))
	in := pkttest.Frame(alice, all, arp)
	drops, events := w.counted(t, func() { w.fromPort(t, "p0", in) })
	if drops["redirect-failed"] != 1 || sum(drops) != 1 || events["flood-copy"] != 2 {
		t.Errorf("drops %v and events %v, want one for redirect and copies to the remotes", drops, events)
	}
}

// The IP packets that TEST_RUN itself refuses: less than an IP header.
func TestRealFramesCutInTheIPHeader(t *testing.T) {
	w := newWorld(t, underIPv4, static(underIPv4))
	taps := w.taps(t)
	for words, reason := range map[string]string{udp4: "malformed-ipv4", udp6: "malformed-ipv6"} {
		in := pkttest.Frame(alice, bob, words)
		header := map[string]int{udp4: ipv4Len, udp6: ipv6Len}[words]
		drops, _ := w.counted(t, func() {
			for n := range header {
				taps["p0"].send(t, in[:etherLen+n])
			}
			w.comeIn(t, taps, in, 0)
		})
		if drops[reason] != uint64(header) || sum(drops) != uint64(header) {
			t.Errorf("%d frames cut in the header: drops %v", header, drops)
		}
	}
}
