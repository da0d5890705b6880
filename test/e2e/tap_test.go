package e2e

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/pkttest"
)

const tapPicture = `
      vm                    hosta ====== underlay ====== hostb ---- server
      tap1 <-- this test --> tap0  u0                u0    p0      eth0
      10.0.0.9                                                 10.0.0.2

  The test carries frames between two taps, as a hypervisor does, and looks at each
  that comes out of tap0. The kernel of the namespace vm is the guest.`

// virtioHeader is struct virtio_net_hdr (VIRTIO 1.2 section 5.1.6).
type virtioHeader struct {
	flags, gsoType                         uint8
	hdrLen, gsoSize, csumStart, csumOffset uint16
}

const (
	virtioLen       = 10
	virtioNeedsCsum = 1
	virtioTCPv4     = 1
	virtioTCPv6     = 4
)

func parseVirtio(b []byte) virtioHeader {
	word := func(at int) uint16 { return binary.NativeEndian.Uint16(b[at:]) }
	return virtioHeader{b[0], b[1], word(2), word(4), word(6), word(8)}
}

// openTap makes a tap device in a host. offload: segments up to 64 kB, with
// unfinished checksums, go through it, behind a virtio header.
func openTap(h *topo.Host, name string, offload bool) (tap *os.File, err error) {
	err = h.Do(func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		request, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		flags, offloads := unix.IFF_TAP|unix.IFF_NO_PI, 0
		if offload {
			flags |= unix.IFF_VNET_HDR
			offloads = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6
		}
		request.SetUint16(uint16(flags))
		err = errors.Join(unix.IoctlIfreq(fd, unix.TUNSETIFF, request), unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, offloads))
		if err != nil {
			unix.Close(fd)
			return err
		}
		tap = os.NewFile(uintptr(fd), name)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("tap %s in %s: %w", name, h.Name, err)
	}
	return tap, nil
}

// cable carries frames between two taps until they are closed.
type cable struct {
	host, guest *os.File
	offload     bool
	running     sync.WaitGroup

	mu      sync.Mutex
	faults  []string
	largest int
	frames  int
}

func plugCable(host, guest *os.File, offload bool) *cable {
	c := &cable{host: host, guest: guest, offload: offload}
	c.running.Go(func() { c.carry(host, guest, c.look) })
	c.running.Go(func() { c.carry(guest, host, func([]byte) {}) })
	return c
}

func (c *cable) carry(from, to *os.File, look func([]byte)) {
	b := make([]byte, 1<<17)
	for {
		size, err := from.Read(b)
		if err != nil {
			return // closed
		}
		look(b[:size])
		if _, err := to.Write(b[:size]); err != nil && !errors.Is(err, os.ErrClosed) {
			c.fault("the guest refuses a frame of %d bytes (%x): %v", size, b[:min(size, 96)], err)
		}
	}
}

func (c *cable) unplug() {
	c.host.Close()
	c.guest.Close()
	c.running.Wait()
}

func (c *cable) fault(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.faults) < 5 {
		c.faults = append(c.faults, fmt.Sprintf(format, args...))
	}
}

// look checks what a guest would be given: whole frames have right checksums,
// segments and unfinished ones a header that says how to finish them.
func (c *cable) look(b []byte) {
	var header virtioHeader
	frame := b
	if c.offload {
		header, frame = parseVirtio(b), b[virtioLen:]
	}
	c.mu.Lock()
	c.largest, c.frames = max(c.largest, len(frame)), c.frames+1
	c.mu.Unlock()
	if err := checkVirtio(header, frame); err != nil {
		c.fault("%v: header %+v, frame of %d bytes %x", err, header, len(frame), frame[:min(len(frame), 80)])
	}
}

func checkVirtio(h virtioHeader, frame []byte) error {
	if h.flags&virtioNeedsCsum == 0 {
		if h.gsoType != 0 {
			return errors.New("a segment without a checksum to fill in")
		}
		if d := pkttest.Dissect(frame); len(d.Faults) > 0 {
			return d.Faults[0]
		}
		return nil
	}
	const ip = 14 // where its header starts
	var l4 int
	var proto byte
	var addresses []byte
	switch binary.BigEndian.Uint16(frame[12:]) {
	case pkttest.EtherTypeIPv4:
		l4 = ip + int(frame[ip]&0xf)*4
		proto, addresses = frame[ip+9], frame[ip+12:ip+20]
	case pkttest.EtherTypeIPv6:
		l4 = ip + 40
		proto, addresses = frame[ip+6], frame[ip+8:ip+40]
	default:
		return errors.New("a checksum to fill in, and not IP")
	}
	if int(h.csumStart) != l4 {
		return fmt.Errorf("the checksum starts at %d, the L4 header at %d", h.csumStart, l4)
	}
	// The field holds the sum of the pseudo header (RFC 9293 3.1).
	want := pkttest.Sum(addresses, uint32(proto)+uint32(len(frame)-l4))
	if got := binary.BigEndian.Uint16(frame[l4+int(h.csumOffset):]); got != want {
		return fmt.Errorf("the unfinished checksum is %#04x, want %#04x", got, want)
	}
	return checkSegment(h, frame, l4)
}

func checkSegment(h virtioHeader, frame []byte, l4 int) error {
	if h.gsoType == 0 {
		return nil
	}
	want := uint8(virtioTCPv4)
	if frame[14]>>4 == 6 {
		want = virtioTCPv6
	}
	headers := l4 + int(frame[l4+12]>>4)*4
	if h.gsoType&0x7f != want || int(h.hdrLen) < headers || h.gsoSize == 0 || int(h.gsoSize) > len(frame)-headers {
		return fmt.Errorf("a segment with %d bytes of headers", headers)
	}
	return nil
}

// sound is nil when nothing was wrong with any frame.
func (c *cable) sound() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.faults) > 0 {
		return errors.New(strings.Join(c.faults, "\n"))
	}
	return nil
}

func (c *cable) seen() (frames, largest int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frames, c.largest
}

func TestTap(t *testing.T) {
	for _, c := range []struct {
		name     string
		family   int
		offload  bool            // of the tap
		underlay map[string]bool // its offloads: off, the tunnel is cut into packets before it
	}{
		{"IPv4", 4, true, nil},
		{"IPv6", 6, true, nil},
		{"TapWithoutOffloads", 4, false, nil},
		{"UnderlayWithoutSegmentation", 4, true, map[string]bool{"tx-udp_tnl-segmentation": false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: c.family, Offloads: c.underlay})
			n.tapWorks(c.offload)
		})
	}
}

func (n *twoHosts) tapWorks(offload bool) {
	n.t.Helper()
	n.picture = tapPicture
	vm, c := n.plugGuest(offload)
	n.record()
	n.start(n.A, n.A.EdgeName(), edgeConfig{name: n.A.EdgeName(), tep: n.TEPA, remotes: []netip.Addr{n.TEPB}, ports: []string{"tap0"}}.yaml())
	n.start(n.B, n.B.EdgeName(), edgeConfig{name: n.B.EdgeName(), tep: n.TEPB, remotes: []netip.Addr{n.TEPA}, ports: []string{topo.AccessName}}.yaml())
	for _, host := range []string{"hosta", "hostb"} {
		n.resolved(host)
	}
	n.fact("the tap is up and delivers by redirect", func() error {
		ports, err := n.ask("hosta").Ports(n.ctx)
		if err == nil && (ports[0].State != "up" || ports[0].Deliver != "redirect") {
			err = fmt.Errorf("%+v", ports)
		}
		return err
	})
	n.guestWorks(vm, c, offload && n.TwoHosts.Options.Offloads == nil)
}

// plugGuest makes the taps and the guest, and joins them.
func (n *twoHosts) plugGuest(offload bool) (vm *topo.Host, c *cable) {
	n.t.Helper()
	vm, err := n.lab.Host("vm")
	n.must(err)
	host, err := openTap(n.A, "tap0", offload)
	n.must(err)
	guest, err := openTap(vm, "tap1", offload)
	n.must(err)
	mtu := n.TwoHosts.Options.InnerMTU
	n.must(errors.Join(
		n.A.DisableIPv6("tap0"), n.A.SetMTU("tap0", mtu), n.A.Up("tap0"),
		vm.SetMTU("tap1", mtu), vm.Up("tap1"),
		vm.AddAddr("tap1", netip.PrefixFrom(guestV4, 24)), vm.AddAddr("tap1", netip.PrefixFrom(guestV6, 64)),
	))
	c = plugCable(host, guest, offload)
	n.t.Cleanup(c.unplug)
	return vm, c
}

var (
	guestV4 = netip.MustParseAddr("10.0.0.9")
	guestV6 = netip.MustParseAddr("fd00::9")
)

func (n *twoHosts) guestWorks(vm *topo.Host, c *cable, whole bool) {
	n.t.Helper()
	noErrors := n.watchErrors(vm, n.A, n.B, n.Server)
	ways := []direction{
		{"guest to server, IPv4", vm, n.Server, topo.ServerV4}, {"guest to server, IPv6", vm, n.Server, topo.ServerV6},
		{"server to guest, IPv4", n.Server, vm, guestV4}, {"server to guest, IPv6", n.Server, vm, guestV6},
	}
	for _, d := range ways {
		n.fact("ping from "+d.name, func() error { return ping(n.ctx, d.from, d.addr) })
	}
	for _, d := range ways {
		n.fact("datagrams from "+d.name, func() error { return echo(d, 1, 18, 1000, 1400, 5000) })
	}
	n.once("no frame was dropped on its way into the tap", n.noTapDrops)
	n.quiet()
	for _, d := range ways {
		n.once("bytes intact from "+d.name, func() error { return transfer(d, len(content)) })
	}
	n.once("every frame out of the tap is sound", c.sound)
	frames, largest := c.seen()
	n.t.Logf("%d frames out of the tap, the largest has %d bytes", frames, largest)
	noErrors()
	n.noDrops()
	if whole {
		n.once("the guest's segments cross the underlay whole", func() error { return n.wholeAt(n.B, ways[0]) })
	}
}

// noTapDrops: a frame that the device cannot hand over, such as a segment that it
// cannot describe, is lost behind the edge. So are those that find its ring full,
// with many at once.
func (n *twoHosts) noTapDrops() error {
	out, err := n.A.Output(n.ctx, "ip", "-j", "-s", "link", "show", "dev", "tap0")
	if err != nil {
		return err
	}
	var links []struct {
		Stats struct {
			Tx struct{ Packets, Errors, Dropped uint64 } `json:"tx"`
		} `json:"stats64"`
	}
	if err := json.Unmarshal(out, &links); err != nil {
		return err
	}
	if tx := links[0].Stats.Tx; tx.Packets == 0 || tx.Errors+tx.Dropped > 0 {
		return fmt.Errorf("%+v", tx)
	}
	return nil
}
