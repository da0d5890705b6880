package rfc2544

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
	"github.com/selvage/selvage/lab/dut/router"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/transit"
	"github.com/selvage/selvage/test/pkttest/check"
	"github.com/selvage/selvage/test/tier"
)

// madeTestbeds are beds that are gone, with all they had, when the test ends, which runs beside
// others.
func madeTestbeds(t *testing.T) *transit.Testbeds {
	t.Helper()
	tier.Root(t)
	t.Parallel()
	all, err := transit.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := all.Close(); err != nil {
			t.Error(err)
		}
		for _, lab := range all.Labs {
			left, _ := filepath.Glob("/run/netns/sv-" + lab.ID + "-*")
			if more, _ := filepath.Glob("/run/selvage/*" + lab.ID + "*"); len(left)+len(more) > 0 {
				t.Errorf("left behind: %v %v", left, more)
			}
		}
	})
	return all
}

func testRfc2544(t *testing.T, args string) *Command {
	t.Helper()
	c, err := parse("--quick " + args)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func buildTestbed(t *testing.T, all *transit.Testbeds, c *Command, name string) *transit.Testbed {
	t.Helper()
	b, err := all.Build(t.Context(), name, name, c.options(name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// around is what the sink sees around frames of a direction.
func around(target, direction string) string {
	encapsulation := string(transitEncapsulation(target))
	switch {
	case target == transit.LimitName && direction != transit.Encap:
		return string(overlay.VXLAN)
	case direction != transit.Encap || encapsulation == "":
		return "plain"
	}
	return encapsulation
}

// Every frame of every flow comes through every target in every direction, as what
// it should be, and every lost one has a counter.
func TestEveryFrameIsAccountedFor(t *testing.T) {
	everyone := []string{transit.LimitName, transit.KernelName, transit.RouteName, transit.OVSName, "selvage", "selvage-geneve", "selvage-nvgre"}
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
				for _, direction := range []string{transit.Encap, transit.Decap, transit.Both} {
					if name != transit.RouteName || direction != transit.Both {
						t.Run(direction, func(t *testing.T) { accounted(t, all, b, direction, c.Family) })
					}
				}
			})
		}
	}
}

func accounted(t *testing.T, all *transit.Testbeds, b *transit.Testbed, direction string, family int) {
	const size, flows = 200, 100
	r, err := all.Instruments(b, transit.InstrumentOptions{Direction: direction, Stream: gen.Stream{Frame: size, Flows: flows, Family: family}, Drain: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := errors.Join(r.Warm(t.Context()), r.Look(gen.SinkOptions{Latency: true})); err != nil {
		t.Fatal(err)
	}
	kind := around(b.Target, direction)
	for _, load := range []gen.Load{{Frames: 500, Rate: 5000}, {Frames: 20000}} {
		p, err := r.Send(t.Context(), load)
		if err != nil {
			t.Fatal(err)
		}
		sum := p.Got.Frames + p.Dropped.Sum()
		if p.Void != "" || p.Sent.Frames == 0 || sum < p.Sent.Frames || sum > p.Sent.Frames+transit.Strangers {
			t.Errorf("%d sent, %d received, %s dropped: %s", p.Sent.Frames, p.Got.Frames, p.Dropped, p.Void)
		}
		if p.Got.Around[kind] != p.Got.Frames || p.Got.Frames == 0 {
			t.Errorf("%d frames came as %v, want %s", p.Got.Frames, p.Got.Around, kind)
		}
		if b.Device.Process == 0 && load.Rate > 0 && (p.Lost > p.Dropped.Sum() || p.Got.Latency.Count != p.Got.Frames) {
			t.Errorf("%d lost (%s), %d of %d timed", p.Lost, p.Dropped, p.Got.Latency.Count, p.Got.Frames)
		}
	}
}

// What a device cannot route is lost, and its counters say so.
func TestLossIsNamed(t *testing.T) {
	c := testRfc2544(t, "")
	all := madeTestbeds(t)
	for _, name := range []string{transit.KernelName, "selvage"} {
		b := buildTestbed(t, all, c, name)
		b.Net.Inside = netip.MustParsePrefix("198.20.0.0/16") // no route leads there
		r, err := all.Instruments(b, transit.InstrumentOptions{Direction: transit.Encap, Stream: gen.Stream{Frame: 64, Flows: 10}, Drain: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		p, err := r.Send(t.Context(), gen.Load{Frames: 1000, Rate: 10000})
		if err != nil || p.Void != "" || p.Lost != p.Sent.Frames || p.Lost == 0 || p.Dropped.Sum() < p.Lost {
			t.Errorf("%s: %v, %d lost of %d, dropped %s: %s", name, err, p.Lost, p.Sent.Frames, p.Dropped, p.Void)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// listen opens a packet socket on an interface of the tester.
func listen(t *testing.T, n *router.Transit, name string) int {
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
func once(t *testing.T, all *transit.Testbeds, b *transit.Testbed, direction string, size int) []byte {
	t.Helper()
	r, err := all.Instruments(b, transit.InstrumentOptions{Direction: direction, Stream: gen.Stream{Frame: size, Flows: 1}, Drain: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Sink.Close(); err != nil { // so that the tester's kernel sees frames
		t.Fatal(err)
	}
	into, want := b.Net.Underlays[0], size-gen.FCS
	if direction == transit.Decap {
		into = b.Net.Uplinks[0]
	} else {
		want += transitEncapsulation(b.Target).Overhead(b.Net.TEP)
	}
	fd := listen(t, b.Net, into.Tester)
	receive := func() (frame []byte, err error) { return receive(fd, want) }
	go func() { _, _ = r.Sender.Run(context.Background(), gen.Load{Frames: 1, Rate: 1000}) }()
	frame, err := receive()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Sender.Close(); err != nil {
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
	for _, name := range []string{transit.KernelName, transit.OVSName, "selvage", "selvage-geneve", "selvage-nvgre"} {
		t.Run(name, func(t *testing.T) {
			b := buildTestbed(t, all, c, name)
			up, under, tunnel := b.Net.Uplinks[0], b.Net.Underlays[0], b.Device.Tunnel
			inner := []check.Checker{
				check.Ether(tunnel.DeviceMAC.String(), tunnel.TesterMAC.String()),
				check.IP(netip.MustParseAddr("198.18.0.2"), netip.MustParseAddr("198.19.0.2"), check.TTL(63)), check.UDP(),
			}
			outer := []check.Checker{
				check.Ether(under.DeviceMAC.String(), under.TesterMAC.String()),
				check.IP(b.Net.TEP, under.TesterAddr.Addr()),
			}
			switch transitEncapsulation(name) {
			case overlay.VXLAN:
				outer = append(outer, check.UDP(check.DstPort(4789)), check.VXLAN(uint32(tunnel.VNI)))
			case overlay.Geneve:
				outer = append(outer, check.UDP(check.DstPort(6081)), check.Geneve(uint32(tunnel.VNI), nil))
			default:
				outer = append(outer, check.NVGRE(uint32(tunnel.VNI)))
			}
			check.Packet(t, nil, once(t, all, b, transit.Encap, size), append(outer, inner...)...)
			check.Packet(t, nil, once(t, all, b, transit.Decap, size),
				check.Ether(up.DeviceMAC.String(), up.TesterMAC.String()), check.IP(netip.MustParseAddr("198.19.0.2"), netip.MustParseAddr("198.18.0.2"), check.TTL(63)), check.UDP())
		})
	}
}
