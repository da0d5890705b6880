package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const tunnelPort = 4789

func (b *bench) checksumDevices(h *Host) map[uint16]int {
	b.t.Helper()
	return b.state(h, us6.Addr()).ChecksumDevices
}

func (b *bench) exists(name string) bool {
	b.t.Helper()
	_, err := b.near.LinkByName(name)
	if err != nil && !gone(err) {
		b.t.Fatal(err)
	}
	return err == nil
}

func TestEnsureChecksumDevice(t *testing.T) {
	b := newBench(t)
	h := b.open()
	if got := b.checksumDevices(h); len(got) > 0 {
		t.Errorf("checksummers %v before any is held", got)
	}
	both := Desired{ChecksumDevices: []uint16{tunnelPort, 6000}}
	b.must(h.Ensure(both))
	vxlan, ok := b.link(b.near, "svx4789").(*netlink.Vxlan)
	if !ok || !vxlan.FlowBased || vxlan.Port != tunnelPort || vxlan.Learning || vxlan.UDP6ZeroCSumTx || !vxlan.UDP6ZeroCSumRx {
		t.Errorf("device %+v", vxlan)
	}
	if vxlan.MTU != checksumDeviceMTU || vxlan.RawFlags&unix.IFF_UP == 0 {
		t.Errorf("MTU %d, flags %#x: want the largest and up", vxlan.MTU, vxlan.RawFlags)
	}
	addrs, err := b.near.AddrList(vxlan, netlink.FAMILY_ALL)
	b.must(err)
	if len(addrs) > 0 {
		t.Errorf("addresses %v, want none", addrs)
	}
	index := vxlan.Index
	if got := b.checksumDevices(h); got[tunnelPort] != index || len(got) != 2 {
		t.Errorf("checksummers %v, want two and %d at port %d", got, index, tunnelPort)
	}
	quiet(h)
	b.must(h.Ensure(both))
	select {
	case <-h.Changed():
		t.Error("holding what is held is an event")
	case <-time.After(4 * debounce):
	}

	b.must(h.Close()) // as if it were killed
	b.must(b.near.LinkSetDown(vxlan))
	h = b.open()
	defer h.Close()
	if got := b.checksumDevices(h); got[tunnelPort] != 0 {
		t.Errorf("checksummers %v has one that is down", got)
	}
	b.must(h.Ensure(both))
	if got := b.checksumDevices(h); got[tunnelPort] != index {
		t.Errorf("checksummers %v, want the former device %d taken over and up", got, index)
	}
	b.must(h.Ensure(Desired{ChecksumDevices: []uint16{6000}}))
	if b.exists("svx4789") || !b.exists("svx6000") {
		t.Error("want only the device of port 6000")
	}
	b.must(h.Ensure(Desired{}))
	if b.exists("svx6000") {
		t.Error("svx6000 is left behind")
	}
	if _, err := os.Stat(b.record); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("record is left behind: %v", err)
	}
}

// A process that was killed between the record and the device, or whose device
// was removed by somebody, leaves a record without a device.
func TestEnsureChecksumDeviceOfARecordAlone(t *testing.T) {
	b := newBench(t)
	h := b.open()
	defer h.Close()
	want := Desired{ChecksumDevices: []uint16{tunnelPort}}
	b.must(h.Ensure(want))
	b.must(b.near.LinkDel(b.link(b.near, "svx4789")))
	if got := b.checksumDevices(h); len(got) > 0 {
		t.Errorf("checksummers %v after removal", got)
	}
	b.must(h.Ensure(want))
	if got := b.checksumDevices(h); got[tunnelPort] == 0 {
		t.Error("the device was not made again")
	}
	b.must(b.near.LinkDel(b.link(b.near, "svx4789")))
	b.must(b.near.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "svx4789"}, PeerName: "v2"}))
	b.must(h.Ensure(Desired{}))
	if !b.exists("svx4789") {
		t.Error("an operator's device was removed")
	}
}

// A device that only gathers is made where it can be had, and what prevents it is no error.
func TestEnsureGRODevice(t *testing.T) {
	b := newBench(t)
	h := b.open()
	defer h.Close()
	want := Desired{GRODevices: []uint16{tunnelPort}}
	b.must(h.Ensure(want))
	if got := b.checksumDevices(h); got[tunnelPort] == 0 {
		t.Fatal("no device was made")
	}
	b.must(h.Ensure(Desired{ChecksumDevices: want.GRODevices}))
	b.must(h.Ensure(want))
	if got := b.checksumDevices(h); got[tunnelPort] == 0 {
		t.Error("a checksummer that is one no more was removed although its port is wanted")
	}
	b.must(h.Ensure(Desired{}))
	theirs := &netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "theirs"}, VxlanId: 7, Port: tunnelPort}
	b.must(b.near.LinkAdd(theirs))
	b.must(b.near.LinkSetUp(theirs))
	for range 2 {
		b.must(h.Ensure(want))
		if b.exists("svx4789") {
			t.Fatal("a device is there that cannot listen")
		}
	}
	b.must(b.near.LinkDel(b.link(b.near, "theirs")))
	b.must(h.Ensure(want))
	if b.exists("svx4789") {
		t.Error("it was asked for again at once: each attempt is an event")
	}
	h.devices.ungathered[tunnelPort] = time.Now().Add(-gatherAgain)
	b.must(h.Ensure(want))
	if got := b.checksumDevices(h); got[tunnelPort] == 0 {
		t.Error("it was not asked for again when the port had become free")
	}
}

func TestEnsureChecksumDeviceConflicts(t *testing.T) {
	const other = "or give the segments with UDP checksums another UDP port"
	vxlan := func(name string, vni int) func(*bench) (remove func()) {
		return func(b *bench) func() {
			link := &netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: name}, VxlanId: vni, FlowBased: vni == 0, Port: tunnelPort}
			b.must(b.near.LinkAdd(link))
			b.must(b.near.LinkSetUp(link))
			return func() { b.must(b.near.LinkDel(link)) }
		}
	}
	tests := []struct {
		name string
		take func(*bench) (remove func())
		want string
	}{
		{"name", vxlan("svx4789", 0), "svx4789 exists and is not this edge's: stop what made it or remove it with `ip link delete dev svx4789`, " + other},
		{"port of a vxlan device", vxlan("theirs", 7), "belongs to vxlan device theirs: remove that, " + other},
		{"port of a device in metadata mode", vxlan("theirs", 0), "belongs to vxlan device theirs: remove that, " + other},
		{"port of a program", func(b *bench) func() {
			c, err := net.ListenUDP("udp6", &net.UDPAddr{Port: tunnelPort})
			b.must(err)
			return func() { c.Close() }
		}, "UDP port 4789 is taken: `ss -ulnp sport = :4789` says by what; stop that, " + other},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			h := b.open()
			defer h.Close()
			remove := tt.take(b)
			want := Desired{ChecksumDevices: []uint16{tunnelPort}}
			if err := h.Ensure(want); err == nil || !strings.HasSuffix(err.Error(), tt.want) {
				t.Errorf("error %v, want one that ends in %q", err, tt.want)
			}
			if got := b.checksumDevices(h); len(got) > 0 {
				t.Errorf("checksummers %v, want none that works", got)
			}
			quiet(h)
			if err := h.Ensure(want); err == nil { // an attempt is no event, or it would bring the next at once
				t.Error("no error at the second attempt")
			}
			select {
			case <-h.Changed():
				t.Error("an attempt that does not work is an event")
			case <-time.After(4 * debounce):
			}
			remove()
			b.must(h.Ensure(want))
			if got := b.checksumDevices(h); got[tunnelPort] == 0 {
				t.Errorf("checksummers %v after the conflict, want one", got)
			}
			b.must(h.Ensure(Desired{}))
			if b.exists("svx4789") {
				t.Error("the device is left behind")
			}
		})
	}
}

// What anyone sends to the device's UDP port ends there: no way into the host.
func TestChecksumDeviceAcceptsNothing(t *testing.T) {
	b := newBench(t)
	h := b.open()
	defer h.Close()
	b.must(h.Ensure(Desired{ChecksumDevices: []uint16{tunnelPort}}))
	link := b.link(b.near, "svx4789")
	c, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: tunnelPort})
	b.must(err)
	defer c.Close()
	arp := append(bytes.Repeat([]byte{0xff}, 6), 2, 0, 0, 0, 0, 9, 8, 6)
	frame := append([]byte{8, 0, 0, 0, 0, 0, 7, 0}, append(arp, make([]byte, 46)...)...)
	for range 5 {
		_, err := c.Write(frame)
		b.must(err)
	}
	if s := b.link(b.near, link.Attrs().Name).Attrs().Statistics; s.RxPackets > 0 {
		t.Errorf("the device received %d packets", s.RxPackets)
	}
}

func TestChecksumDeviceName(t *testing.T) {
	for port, want := range map[uint16]string{4789: "svx4789", 65535: "svx65535"} {
		if got := ChecksumDeviceName(port); got != want || len(got) >= unix.IFNAMSIZ {
			t.Errorf("name of port %d is %s, want %s and short enough for a link", port, got, want)
		}
	}
}

// What a process left whose record is lost, as another edge of the same name replaced it elsewhere, is used again or
// removed: it is not taken for an operator's.
func TestDevicesWithoutARecord(t *testing.T) {
	b := newBench(t)
	name := GRODeviceName("a")
	want := Desired{ChecksumDevices: []uint16{tunnelPort}, GRODevice: name}
	leave := func() (devices [2]int) {
		h := b.open()
		b.must(h.Ensure(want))
		b.must(h.Close()) // as if it were killed
		b.must(os.Remove(b.record))
		return [2]int{b.link(b.near, "svx4789").Attrs().Index, b.link(b.near, nearEnd(name)).Attrs().Index}
	}
	made := leave()
	h := b.open()
	b.must(h.Ensure(want))
	if now := [2]int{b.link(b.near, "svx4789").Attrs().Index, b.link(b.near, nearEnd(name)).Attrs().Index}; now != made {
		t.Errorf("devices %v, want those that were left, %v", now, made)
	}
	b.must(h.Ensure(Desired{}))
	if b.exists("svx4789") || b.exists(nearEnd(name)) {
		t.Error("what was taken over is left behind")
	}
	b.must(h.Close())

	leave()
	h = b.open()
	defer h.Close()
	if found, err := h.Adopt("other"); found || err != nil {
		t.Errorf("%v (%v) of an edge that left nothing", found, err)
	}
	if found, err := h.Adopt("a"); !found || err != nil {
		t.Errorf("found %v (%v), want the pair", found, err)
	}
	b.must(h.Ensure(Desired{}))
	if b.exists(nearEnd(name)) {
		t.Error("the pair is left behind")
	}
	other := filepath.Join(filepath.Dir(b.record), "other"+filepath.Ext(b.record))
	b.must(os.WriteFile(other, fmt.Appendf(nil, `{"namespace": %d, "checksummers": [%d]}`, h.held.Namespace, tunnelPort), 0o600))
	if err := h.Ensure(want); err == nil || !strings.Contains(err.Error(), "svx4789 exists and is not this edge's") {
		t.Errorf("%v, want that the device is of an edge that has it in its record", err)
	}
}
