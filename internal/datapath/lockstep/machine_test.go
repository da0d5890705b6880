package lockstep

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/datapath/mapmodel"
	"github.com/selvage/selvage/test/tier"
)

// pinned is a hash of two entries in both, and its pin.
func pinned(t *testing.T) (*Machine, kernel.PinnedMap, string) {
	tier.Root(t)
	m := New(1, func(do func()) { do() })
	k, dir := m.Kernel(), fmt.Sprintf("/sys/fs/bpf/selvage-lockstep-%d", os.Getpid())
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := k.Pins.Mount(dir); err != nil {
		t.Fatal(err)
	}
	hash, err := k.Loader.NewMap(&ebpf.MapSpec{Name: "some", Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: 2})
	if err != nil {
		t.Fatal(err)
	}
	at := dir + "/some"
	if err := hash.Pin(at); err != nil {
		t.Fatal(err)
	}
	return m, hash, at
}

// What is written to the kernel's map past the model is a difference, for who looks it up and for who compares.
func TestDifferencesAreFound(t *testing.T) {
	m, hash, at := pinned(t)
	if err := hash.Put(uint32(1), uint32(10)); err != nil {
		t.Fatal(err)
	}
	m.Compare()
	if list := m.Differences(); len(list) > 0 {
		t.Fatalf("the same is in both: %v", list)
	}
	past, err := kernel.Host().Loader.PinnedMap(at)
	if err != nil {
		t.Fatal(err)
	}
	defer past.Close()
	if err := past.Put(uint32(1), uint32(11)); err != nil {
		t.Fatal(err)
	}
	var value uint32
	if err := hash.Lookup(uint32(1), &value); err != nil || value != 11 {
		t.Errorf("%d, %v: want what the kernel has", value, err)
	}
	if list := m.Differences(); len(list) != 1 || !strings.Contains(list[0], "in the model 10") {
		t.Errorf("a lookup: %v", list)
	}
	if err := hash.Put(uint32(2), uint32(20)); err != nil {
		t.Fatal(err)
	}
	m.Compare()
	if list := m.Differences(); len(list) != 1 || !strings.Contains(list[0], "map some") {
		t.Errorf("the contents: %v", list)
	}
	if err := past.Delete(uint32(1)); err != nil {
		t.Fatal(err)
	}
	if err := hash.Delete(uint32(1)); !errors.Is(err, ebpf.ErrKeyNotExist) {
		t.Errorf("%v: want what the kernel says", err)
	}
	if list := m.Differences(); len(list) != 1 || !strings.Contains(list[0], "the kernel says") {
		t.Errorf("an error: %v", list)
	}
}

// What is refused is in neither, and of a batch what comes after.
func TestRefusalsAreOfBoth(t *testing.T) {
	m, hash, _ := pinned(t)
	refused := errors.New("refused by the test")
	m.Refuse(mapmodel.Faults{Write: func(w mapmodel.Write) error {
		if w.N == 2 {
			return refused
		}
		return nil
	}})
	n, err := hash.BatchUpdate([]uint32{1, 2}, []uint32{10, 20}, nil)
	if n != 1 || !errors.Is(err, refused) {
		t.Errorf("%d entries, %v: want 1 and the refusal", n, err)
	}
	if all := m.Contents("some"); len(all) != 1 {
		t.Errorf("the kernel has %v, want one entry", all)
	}
	if err := errors.Join(hash.Put(uint32(3), uint32(30)), hash.Put(uint32(4), uint32(40))); !errors.Is(err, unix.E2BIG) {
		t.Errorf("a third entry of two: %v", err)
	}
	m.Compare()
	if list := m.Differences(); len(list) > 0 {
		t.Error(list)
	}
}
