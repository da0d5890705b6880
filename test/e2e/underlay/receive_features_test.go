package underlay

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
)

const featuresPicture = `
   vxlan1, geneve1, nvgre1 -- edge1 ── e1 switch e2 ── edge2 -- vxlan2, geneve2, nvgre2
                                      frames are injected at e1`

const (
	featuresSpec = `
  segments:
  - {name: vxlan, vni: 100, remotes: REMOTES}
  - {name: geneve, vni: 101, encapsulation: geneve, remotes: REMOTES}
  - {name: nvgre, vni: 102, encapsulation: nvgre, remotes: REMOTES}
  ports:
  - {name: vxlan, interface: p0, segment: vxlan}
  - {name: geneve, interface: p1, segment: geneve}
  - {name: nvgre, interface: p2, segment: nvgre}
`
	datagramPort  = 7200
	datagramBytes = 200
)

// featured is two edges with guests in a segment of each encapsulation.
type featured struct {
	*harness.Hub
	guests map[overlay.Encapsulation][2]harness.Guest
	conns  map[overlay.Encapsulation]*net.UDPConn // at the guests of edge1
}

var featuredSegments = []overlay.Encapsulation{overlay.VXLAN, overlay.Geneve, overlay.NVGRE}

func newFeatured(t *testing.T) *featured {
	t.Helper()
	n := &featured{harness.NewUnderlay(t, featuresPicture, 2, 4), make(map[overlay.Encapsulation][2]harness.Guest), make(map[overlay.Encapsulation]*net.UDPConn)}
	for i, e := range featuredSegments {
		port := fmt.Sprintf("p%d", i)
		first := n.Guest(string(e)+"1", i, 1, n.Hosts[0], port, 1450)
		n.guests[e] = [2]harness.Guest{first, n.Guest(string(e)+"2", i, 2, n.Hosts[1], port, 1450)}
		n.Must(first.Do(func() (err error) {
			n.conns[e], err = net.ListenUDP("udp4", &net.UDPAddr{Port: datagramPort})
			return errors.Join(err, n.conns[e].SetReadBuffer(8<<20))
		}))
		t.Cleanup(func() { n.conns[e].Close() })
	}
	n.EdgesUp(featuresSpec, featuresSpec)
	for _, e := range featuredSegments {
		n.Pings(harness.Ways(n.guests[e][0], n.guests[e][1])...)
	}
	// A poll of an adapter takes many frames at once; that of a veth waits for them.
	_, err := n.Sw.Output(n.Ctx, "ip", "netns", "exec", n.Hosts[0].Namespace, "sh", "-c",
		"cd /sys/class/net/u0 && echo 1000000 > gro_flush_timeout && echo 10 > napi_defer_hard_irqs")
	n.Must(err)
	_, err = n.Sw.SetFeatures("e1", map[string]bool{"tx-tcp-segmentation": false, "tx-tcp6-segmentation": false, "tx-tcp-ecn-segmentation": false, "tx-tcp-mangleid-segmentation": false})
	n.Must(err)
	n.StopCaptures()
	return n
}

// inject sends datagrams from the second guest to the first as an adapter hands them over: in one
// burst, in tunnel packets that are complete with their checksums.
func (n *featured) inject(e overlay.Encapsulation, checksum bool, count int) error {
	frames, err := harness.OpenFrames(n.Sw, "e1", false)
	if err != nil {
		return err
	}
	defer frames.Close()
	to, from := n.guests[e][0], n.guests[e][1]
	outer := pkttest.Outer{
		SrcMAC: harness.UnderlayMAC(2).String(), DstMAC: harness.UnderlayMAC(1).String(), Src: n.Teps[1], Dst: n.Teps[0],
		Encapsulation: e, VNI: map[overlay.Encapsulation]uint32{overlay.VXLAN: 100, overlay.Geneve: 101, overlay.NVGRE: 102}[e], Checksum: checksum,
	}
	words := fmt.Sprintf("udp %s:%d > %s:%d %d", from.Addr(4), datagramPort, to.Addr(4), datagramPort, datagramBytes)
	frame := outer.Wrap(pkttest.Frame(from.Ether().String(), to.Ether().String(), words))
	for range count {
		if err := frames.Send(frame); err != nil {
			return err
		}
	}
	return nil
}

// arrived is nil when the guest gets as many datagrams, each whole.
func (n *featured) arrived(e overlay.Encapsulation, count int) error {
	buffer := make([]byte, 1<<16)
	for i := range count {
		if err := n.conns[e].SetReadDeadline(time.Now().Add(3 * time.Second)); err != nil {
			return err
		}
		size, err := n.conns[e].Read(buffer)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("%d of %d datagrams arrived", i, count)
		case err != nil:
			return err
		case size != datagramBytes:
			return fmt.Errorf("datagram %d has %d bytes", i, size)
		}
	}
	return nil
}

func (n *featured) cuts() (float64, error) {
	text, err := n.Ask("edge1").Metrics(n.Ctx)
	if err != nil {
		return 0, err
	}
	return harness.Metric(text, `selvage_events_total{event="gso-cut"}`)
}

// wire has a copy of bytes in place of the switch, as a wire carries them: the marks of a veth, by which
// the kernel neither joins nor cuts, do not get across.
func (n *featured) wire() (end func()) {
	n.T.Helper()
	n.Must(n.Sw.Delete("br0"))
	// What leaves has to be complete.
	_, err := n.Hosts[1].SetFeatures(topo.UnderlayName, map[string]bool{"tx-checksum-ip-generic": false})
	n.Must(err)
	_, err = n.Hosts[0].SetFeatures(topo.UnderlayName, map[string]bool{"tx-checksum-ip-generic": false})
	n.Must(err)
	var ends [2]*harness.Frames
	for i := range ends {
		ends[i], err = harness.OpenFrames(n.Sw, fmt.Sprintf("e%d", i+1), false)
		n.Must(err)
	}
	var owned sync.WaitGroup
	for i := range ends {
		owned.Go(func() {
			for {
				frame, err := ends[i].Next(time.Time{})
				if err != nil { // closed
					return
				}
				_ = ends[1-i].Send(frame) // a queue that is full loses it
			}
		})
	}
	return func() {
		for _, f := range ends {
			f.Close()
		}
		owned.Wait()
	}
}

// Whatever the kernel joins of tunnel packets, or in them, every datagram reaches its guest.
func TestReceiveFeatures(t *testing.T) {
	t.Parallel()
	n := newFeatured(t)
	segmentsOfGuests(n)
	const count = 100
	for _, features := range []map[string]bool{
		{"rx-gro": true},
		{"rx-gro": true, "rx-udp-gro-forwarding": true},
		{"rx-gro": true, "rx-gro-list": true},
		{"rx-gro": true, "rx-udp-gro-forwarding": true, "rx-gro-list": true},
		{"rx-gro": false},
	} {
		undo, err := n.Hosts[0].SetFeatures(topo.UnderlayName, features)
		n.Must(err)
		before, err := n.cuts()
		n.Must(err)
		cut, joins := 0.0, len(features) > 1
		// A busy core may take in one packet at a time, of which there is none to join.
		for round := 0; round < 10 && (round == 0 || joins && cut == 0); round++ {
			for _, e := range featuredSegments {
				for _, checksum := range []bool{false, true} {
					if checksum && e == overlay.NVGRE {
						continue
					}
					n.Once(fmt.Sprintf("%s with checksum %t, %v", e, checksum, features), func() error {
						return errors.Join(n.inject(e, checksum, count), n.arrived(e, count))
					})
				}
			}
			after, err := n.cuts()
			n.Must(err)
			cut = after - before
		}
		if joins != (cut > 0) {
			t.Errorf("%v: %g segments were cut", features, cut)
		}
		n.Must(undo())
	}
	defer n.wire()()
	for _, feature := range []string{"rx-gro-list", "rx-udp-gro-forwarding"} {
		undo, err := n.Hosts[0].SetFeatures(topo.UnderlayName, map[string]bool{"rx-gro": true, feature: true})
		n.Must(err)
		for _, e := range featuredSegments {
			d := harness.Way(n.guests[e][1], n.guests[e][0], 4)
			n.Once(fmt.Sprintf("TCP with %s, %s", feature, d.Name), func() error { return harness.Transfer(d, 1_000_000) })
		}
		n.Must(undo())
	}
	n.NoDrops()
}

// segmentsOfGuests: large UDP segments of a guest cross a virtual underlay whole, and are cut there.
func segmentsOfGuests(n *featured) {
	n.T.Helper()
	const segments, calls = 40, 5
	for _, e := range featuredSegments {
		n.Once(string(e), func() error {
			to, from := n.guests[e][0], n.guests[e][1]
			err := from.Do(func() error {
				conn, err := net.Dial("udp4", net.JoinHostPort(to.Addr(4).String(), fmt.Sprint(datagramPort)))
				if err != nil {
					return err
				}
				defer conn.Close()
				return sendSegments(conn.(*net.UDPConn), segments, calls)
			})
			return errors.Join(err, n.arrived(e, segments*calls))
		})
	}
	n.NoDrops()
}

// sendSegments has the kernel cut each write into datagrams (UDP_SEGMENT of udp(7)).
func sendSegments(conn *net.UDPConn, segments, calls int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, datagramBytes)
	}); err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	for range calls {
		if _, err := conn.Write(make([]byte, segments*datagramBytes)); err != nil {
			return err
		}
	}
	return nil
}
