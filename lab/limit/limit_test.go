package limit_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/limit"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

// pair is a lab with a link, and the index of the interface "a" of its first host.
func pair(t *testing.T) (*topo.Host, int) {
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
	var hosts []*topo.Host
	for _, name := range []string{"a", "b"} {
		h, err := lab.Host(name)
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, h)
	}
	end := func(h *topo.Host, addr string) topo.LinkEnd {
		return topo.LinkEnd{Host: h, Name: h.Name, Addrs: []netip.Prefix{netip.MustParsePrefix(addr)}}
	}
	if err := lab.Link(t.Context(), end(hosts[0], "10.9.0.1/24"), end(hosts[1], "10.9.0.2/24"), 1500); err != nil {
		t.Fatal(err)
	}
	index, err := hosts[0].Index("a")
	if err != nil {
		t.Fatal(err)
	}
	return hosts[0], index
}

// attached says whether an XDP program is on the interface.
func attached(t *testing.T, h *topo.Host) bool {
	t.Helper()
	out, err := h.Output(t.Context(), "ip", "link", "show", "a")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(out), "xdp")
}

// Where one way cannot be joined the other is taken back.
func TestJoinBothWaysOrNone(t *testing.T) {
	h, index := pair(t)
	err := h.Do(func() error {
		w, err := limit.Join(index, 1<<20)
		if err == nil {
			t.Error("there is no such interface, and it was joined")
			return w.Close()
		}
		return nil
	})
	if err != nil || attached(t, h) {
		t.Errorf("%v, program attached: %t", err, attached(t, h))
	}
}

// An interface that has a program keeps it, and one that accepts still talks.
func TestAccept(t *testing.T) {
	h, index := pair(t)
	accept := func() *limit.Wire {
		var w *limit.Wire
		if err := h.Do(func() (err error) { w, err = limit.Accept(index); return err }); err != nil {
			t.Fatal(err)
		}
		return w
	}
	first, second := accept(), accept()
	if err := second.Close(); err != nil || !attached(t, h) {
		t.Errorf("%v, the first program attached: %t", err, attached(t, h))
	}
	if err := h.Reach(t.Context(), netip.MustParseAddr("10.9.0.2")); err != nil {
		t.Error(err)
	}
	if err := first.Close(); err != nil || attached(t, h) {
		t.Errorf("%v, program attached: %t", err, attached(t, h))
	}
}
