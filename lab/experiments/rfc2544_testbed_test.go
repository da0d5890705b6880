package experiments

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/pkttest/check"
	"github.com/selvage/selvage/test/tier"
)

// madeTestbeds are beds that are gone, with all they had, when the test ends, which runs beside
// others.
func madeTestbeds(t *testing.T) *testbeds {
	t.Helper()
	tier.Root(t)
	t.Parallel()
	all, err := openTestbeds()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := all.close(); err != nil {
			t.Error(err)
		}
		for _, lab := range all.labs {
			left, _ := filepath.Glob("/run/netns/sv-" + lab.ID + "-*")
			if more, _ := filepath.Glob("/run/selvage/*" + lab.ID + "*"); len(left)+len(more) > 0 {
				t.Errorf("left behind: %v %v", left, more)
			}
		}
	})
	return all
}

func testRfc2544(t *testing.T, args string) *Rfc2544 {
	t.Helper()
	c, err := parseRfc2544("--quick " + args)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func buildTestbed(t *testing.T, all *testbeds, c *Rfc2544, name string) *testbed {
	t.Helper()
	b, err := all.build(t.Context(), name, name, c.options(name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// around is what the sink sees around frames of a direction.
func around(target, direction string) string {
	encapsulation := string(transitEncapsulation(target))
	switch {
	case target == limitName && direction != stats.Encap:
		return string(overlay.VXLAN)
	case direction != stats.Encap || encapsulation == "":
		return "plain"
	}
	return encapsulation
}

// Every frame of every flow comes through every target in every direction, as what
// it should be, and every lost one has a counter.
func TestEveryFrameIsAccountedFor(t *testing.T) {
	everyone := []string{limitName, kernelName, routeName, ovsName, "selvage", "selvage-geneve", "selvage-nvgre"}
	// TestTransitBytes has the other encapsulations too.
	for setting, names := range map[string][]string{"": everyone[:5], "--family 6 --underlay 6 --scenario 2": {"selvage"}, "--cores split": {"selvage"}} {
		if tier.IsLong() {
			names = everyone
		}
		for _, name := range names {
			t.Run(name+setting, func(t *testing.T) {
				all := madeTestbeds(t)
				c := testRfc2544(t, setting)
				b := buildTestbed(t, all, c, name)
				for _, direction := range []string{stats.Encap, stats.Decap, stats.Both} {
					if name != routeName || direction != stats.Both {
						t.Run(direction, func(t *testing.T) { accounted(t, all, b, direction, c.Family) })
					}
				}
			})
		}
	}
}

func accounted(t *testing.T, all *testbeds, b *testbed, direction string, family int) {
	const size, flows = 200, 100
	r, err := all.instruments(b, instrumentsOptions{direction: direction, stream: gen.Stream{Frame: size, Flows: flows, Family: family}, drain: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := errors.Join(r.warm(t.Context()), r.look(gen.SinkOptions{Latency: true})); err != nil {
		t.Fatal(err)
	}
	kind := around(b.target, direction)
	for _, load := range []gen.Load{{Frames: 500, Rate: 5000}, {Frames: 20000}} {
		p, err := r.send(t.Context(), load)
		if err != nil {
			t.Fatal(err)
		}
		sum := p.got.Frames + p.dropped.Sum()
		if p.void != "" || p.sent.Frames == 0 || sum < p.sent.Frames || sum > p.sent.Frames+strangers {
			t.Errorf("%d sent, %d received, %s dropped: %s", p.sent.Frames, p.got.Frames, p.dropped, p.void)
		}
		if p.got.Around[kind] != p.got.Frames || p.got.Frames == 0 {
			t.Errorf("%d frames came as %v, want %s", p.got.Frames, p.got.Around, kind)
		}
		if b.device.Process == 0 && load.Rate > 0 && (p.lost > p.dropped.Sum() || p.got.Latency.Count != p.got.Frames) {
			t.Errorf("%d lost (%s), %d of %d timed", p.lost, p.dropped, p.got.Latency.Count, p.got.Frames)
		}
	}
}

// What a device cannot route is lost, and its counters say so.
func TestLossIsNamed(t *testing.T) {
	c := testRfc2544(t, "")
	all := madeTestbeds(t)
	for _, name := range []string{kernelName, "selvage"} {
		b := buildTestbed(t, all, c, name)
		b.net.Inside = netip.MustParsePrefix("198.20.0.0/16") // no route leads there
		r, err := all.instruments(b, instrumentsOptions{direction: stats.Encap, stream: gen.Stream{Frame: 64, Flows: 10}, drain: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		p, err := r.send(t.Context(), gen.Load{Frames: 1000, Rate: 10000})
		if err != nil || p.void != "" || p.lost != p.sent.Frames || p.lost == 0 || p.dropped.Sum() < p.lost {
			t.Errorf("%s: %v, %d lost of %d, dropped %s: %s", name, err, p.lost, p.sent.Frames, p.dropped, p.void)
		}
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}
}

// listen opens a packet socket on an interface of the tester.
func listen(t *testing.T, n *topo.Transit, name string) int {
	t.Helper()
	index, err := n.Tester.Index(name)
	if err != nil {
		t.Fatal(err)
	}
	var fd int
	err = n.Tester.Do(func() (err error) {
		all := uint16(unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8)
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, int(all)); err != nil {
			return err
		}
		return errors.Join(
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index}),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// receive returns the next frame that came in and has a size.
func receive(fd, size int) ([]byte, error) {
	buffer := make([]byte, 4096)
	for range 1000 {
		n, from, err := unix.Recvfrom(fd, buffer, 0)
		if err != nil {
			return nil, fmt.Errorf("a frame of %d bytes: %w", size, err)
		}
		if link, ok := from.(*unix.SockaddrLinklayer); ok && link.Pkttype != unix.PACKET_OUTGOING && n == size {
			return buffer[:n], nil
		}
	}
	return nil, fmt.Errorf("no frame of %d bytes", size)
}

// once sends one frame of a direction without a sink and returns what arrives.
func once(t *testing.T, all *testbeds, b *testbed, direction string, size int) []byte {
	t.Helper()
	r, err := all.instruments(b, instrumentsOptions{direction: direction, stream: gen.Stream{Frame: size, Flows: 1}, drain: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.sink.Close(); err != nil { // so that the tester's kernel sees frames
		t.Fatal(err)
	}
	into, want := b.net.Underlays[0], size-gen.FCS
	if direction == stats.Decap {
		into = b.net.Uplinks[0]
	} else {
		want += transitEncapsulation(b.target).Overhead(b.net.TEP)
	}
	fd := listen(t, b.net, into.Tester)
	receive := func() (frame []byte, err error) { return receive(fd, want) }
	go func() { _, _ = r.sender.Run(context.Background(), gen.Load{Frames: 1, Rate: 1000}) }()
	frame, err := receive()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.sender.Close(); err != nil {
		t.Error(err)
	}
	return frame
}

// The bytes are those of the tunnel: outer addresses, segment, inner addresses, and a TTL
// that fell by one.
func TestTransitBytes(t *testing.T) {
	c := testRfc2544(t, "")
	all := madeTestbeds(t)
	const size = 128
	for _, name := range []string{kernelName, ovsName, "selvage", "selvage-geneve", "selvage-nvgre"} {
		t.Run(name, func(t *testing.T) {
			b := buildTestbed(t, all, c, name)
			up, under, tunnel := b.net.Uplinks[0], b.net.Underlays[0], b.device.Tunnel
			inner := []check.Checker{
				check.Ether(tunnel.DeviceMAC.String(), tunnel.TesterMAC.String()),
				check.IP(netip.MustParseAddr("198.18.0.2"), netip.MustParseAddr("198.19.0.2"), check.TTL(63)), check.UDP(),
			}
			outer := []check.Checker{
				check.Ether(under.DeviceMAC.String(), under.TesterMAC.String()),
				check.IP(b.net.TEP, under.TesterAddr.Addr()),
			}
			switch transitEncapsulation(name) {
			case overlay.VXLAN:
				outer = append(outer, check.UDP(check.DstPort(4789)), check.VXLAN(uint32(tunnel.VNI)))
			case overlay.Geneve:
				outer = append(outer, check.UDP(check.DstPort(6081)), check.Geneve(uint32(tunnel.VNI), nil))
			default:
				outer = append(outer, check.NVGRE(uint32(tunnel.VNI)))
			}
			check.Packet(t, nil, once(t, all, b, stats.Encap, size), append(outer, inner...)...)
			check.Packet(t, nil, once(t, all, b, stats.Decap, size),
				check.Ether(up.DeviceMAC.String(), up.TesterMAC.String()), check.IP(netip.MustParseAddr("198.19.0.2"), netip.MustParseAddr("198.18.0.2"), check.TTL(63)), check.UDP())
		})
	}
}
