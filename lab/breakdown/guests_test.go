package breakdown

import (
	"encoding/binary"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

// Generated types have no hidden padding and the sizes that the maps have: those of an
// edge's stamps, which are read by the same code.
func TestMapTypes(t *testing.T) {
	spec, err := loadGuests()
	if err != nil {
		t.Fatal(err)
	}
	for name, typ := range map[string]reflect.Type{guestsMapStamps: reflect.TypeFor[guestsStamp](), guestsMapStamped: reflect.TypeFor[guestsStamped]()} {
		size := binary.Size(reflect.New(typ).Interface())
		if size != int(typ.Size()) || uint32(size) != spec.Maps[name].ValueSize {
			t.Errorf("%s: %d bytes packed, %d in memory, %d in the map", name, size, typ.Size(), spec.Maps[name].ValueSize)
		}
	}
}

// A datagram is stamped where it leaves its sender and where its receiver's socket has it,
// in namespaces that are followed and no others.
func TestWatchGuests(t *testing.T) {
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
	hosts := make([]*topo.Host, 2)
	for i, name := range []string{"a", "b"} {
		if hosts[i], err = lab.Host(name); err != nil {
			t.Fatal(err)
		}
	}
	g, err := WatchGuests("/run/netns/" + hosts[0].Namespace)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for i, want := range [][]datapath.Point{{pointLeaves, pointReady}, nil} {
		if err := g.Clear(); err != nil {
			t.Fatal(err)
		}
		if err := hosts[i].Do(toOneself); err != nil {
			t.Fatal(err)
		}
		stamps, lost, err := g.Read()
		if err != nil || lost > 0 {
			t.Fatalf("%d lost, %v", lost, err)
		}
		var points []datapath.Point
		for _, s := range inOrder(stamps) {
			points = append(points, s.Point)
		}
		if !slices.Equal(points, want) {
			t.Errorf("host %s: points %v, want %v", hosts[i].Name, points, want)
		}
	}
	if _, err := WatchGuests("/run/netns/nobody's"); err == nil {
		t.Error("a namespace is followed that is not there")
	}
}

// toOneself sends a datagram by the loopback interface to a socket of its own.
func toOneself() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	to := &unix.SockaddrInet4{Port: 4000, Addr: netip.MustParseAddr("127.0.0.1").As4()}
	if err := unix.Bind(fd, to); err != nil {
		return err
	}
	if err := unix.Sendto(fd, []byte("x"), 0, to); err != nil {
		return err
	}
	_, _, err = unix.Recvfrom(fd, make([]byte, 1), 0)
	return err
}
