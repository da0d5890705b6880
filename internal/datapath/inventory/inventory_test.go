package inventory

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/selvage/selvage/test/tier"
)

// What is there is listed, with what it takes.
func TestRead(t *testing.T) {
	tier.Root(t)
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: "listed", Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	inv, err := Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(inv.Maps, func(m Map) bool { return m.Name == "listed" })
	if i < 0 {
		t.Fatalf("it is none of %d maps", len(inv.Maps))
	}
	if inv.Maps[i].Type != "Hash" || inv.Maps[i].Value != 8 || inv.Maps[i].Entries != 1000 || inv.Maps[i].Memlock == 0 || inv.Memlock < inv.Maps[i].Memlock {
		t.Errorf("map %+v, all %d bytes", inv.Maps[i], inv.Memlock)
	}
}
