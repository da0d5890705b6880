package losses

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

// namespace is a host of a lab of the test's own.
func namespace(t *testing.T) *topo.Host {
	t.Helper()
	tier.Root(t)
	lab, err := topo.New(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	h, err := lab.Host("a")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func follow(t *testing.T, w *Watch, h *topo.Host) uint32 {
	t.Helper()
	inode, err := Inode("/run/netns/" + h.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Follow(inode, All); err != nil {
		t.Fatal(err)
	}
	return inode
}

// knock sends n datagrams to a port of the host itself that nobody has.
func knock(t *testing.T, h *topo.Host, n int) {
	t.Helper()
	err := h.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for range n {
			if err := unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Only what a followed namespace drops is counted, exactly and by its reason.
func TestFreed(t *testing.T) {
	tier.Root(t)
	w, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	h, other := namespace(t), namespace(t)
	inode := follow(t, w, h)
	knock(t, other, 5)
	knock(t, h, 7)
	counts, err := w.Read(inode)
	if err != nil || counts[Freed+"NO_SOCKET"] != 7 || counts.Sum() != 7 {
		t.Errorf("%v, %v; want 7 for want of a socket", counts, err)
	}
	before := counts
	knock(t, h, 2)
	if counts, err = w.Read(inode); err != nil || counts.Since(before).Sum() != 2 {
		t.Errorf("%v after %v, %v; want 2 more", counts, before, err)
	}
	if err := w.Forget(inode); err != nil {
		t.Fatal(err)
	}
	knock(t, h, 3)
	if counts, err := w.Read(inode); err != nil || len(counts) != 0 {
		t.Errorf("%v, %v after forgetting", counts, err)
	}
	if err := w.Forget(inode); err != nil {
		t.Errorf("forgetting twice: %v", err)
	}
}

// A packet for somebody else is a loss of its own kind.
func TestReasons(t *testing.T) {
	tier.Root(t)
	w, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	h := namespace(t)
	peer, err := h.Lab().Host("b")
	if err != nil {
		t.Fatal(err)
	}
	addr := func(s string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(s)} }
	if err := h.Lab().Link(t.Context(), topo.LinkEnd{Host: h, Name: "a", Addrs: addr("10.9.0.1/24")}, topo.LinkEnd{Host: peer, Name: "b", Addrs: addr("10.9.0.2/24")}, 1500); err != nil {
		t.Fatal(err)
	}
	err = h.Do(func() error {
		link, err := netlink.LinkByName("a")
		if err != nil {
			return err
		}
		return netlink.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.IPv4(10, 9, 0, 2), HardwareAddr: net.HardwareAddr{2, 9, 9, 9, 9, 9}})
	})
	if err != nil {
		t.Fatal(err)
	}
	inode := follow(t, w, peer)
	err = h.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		return errors.Join(unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{10, 9, 0, 2}}), unix.Close(fd))
	})
	if err != nil {
		t.Fatal(err)
	}
	err = await.That(t.Context(), "the packet to be counted", func() error {
		counts, err := w.Read(inode)
		if err == nil && (counts[Freed+"OTHERHOST"] != 1 || counts.Sum() != 1) {
			err = errors.New("there is " + counts.String())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
