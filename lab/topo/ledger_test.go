package topo_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

const ledgers = "/run/selvage/offloads"

// everything are all features of an interface.
func everything(t *testing.T, h *topo.Host, name string) map[string]bool {
	t.Helper()
	features, err := h.Features(name)
	if err != nil {
		t.Fatal(err)
	}
	return features
}

func TestLedger(t *testing.T) {
	t.Parallel()
	tier.Root(t)
	ctx := context.Background()
	lab, err := topo.New(ctx, "ledger")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	}()
	n, err := topo.NewTwoHosts(ctx, lab, topo.TwoHostsOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := topo.NewLedger(lab)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(ledgers, lab.ID+".json")
	if _, err := os.Stat(file); err == nil {
		t.Error("a ledger of nothing has a file")
	}
	before := map[*topo.Host]map[string]bool{n.A: everything(t, n.A, topo.UnderlayName), n.B: everything(t, n.B, topo.UnderlayName)}
	off := map[string]bool{"tx-checksum-ip-generic": false, "tx-tcp-segmentation": false, "rx-gro": true, "no-such-feature": true}
	for _, h := range []*topo.Host{n.A, n.B} {
		now, err := l.Set(h, topo.UnderlayName, off)
		if err != nil {
			t.Fatal(err)
		}
		if now["tx-checksum-ip-generic"] || now["tx-tcp-segmentation"] || !now["rx-gro"] || !maps.Equal(now, sub(everything(t, h, topo.UnderlayName), now)) {
			t.Errorf("in force are %v", now)
		}
	}
	// A second change must not make the first the old state.
	if _, err := l.Set(n.A, topo.UnderlayName, map[string]bool{"rx-gro": false, "tx-udp_tnl-segmentation": false}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	// The owner lives: nobody else restores.
	if names, err := topo.RestoreOffloads(ctx); err != nil || maps.Equal(everything(t, n.B, topo.UnderlayName), before[n.B]) {
		t.Errorf("restored %v, %v", names, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for h, want := range before {
		if got := everything(t, h, topo.UnderlayName); !maps.Equal(got, want) {
			t.Errorf("%s: features are %v and were %v", h.Name, got, want)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the file is still there")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// An interface that has gone needs nothing, and a later one of its name is not touched.
func TestLedgerOfWhatIsGone(t *testing.T) {
	t.Parallel()
	tier.Root(t)
	ctx := context.Background()
	lab, err := topo.New(ctx, "ledger")
	if err != nil {
		t.Fatal(err)
	}
	defer lab.Close()
	a, err := lab.Host("a")
	if err != nil {
		t.Fatal(err)
	}
	b, err := lab.Host("b")
	if err != nil {
		t.Fatal(err)
	}
	link := func() {
		t.Helper()
		if err := lab.Link(ctx, topo.LinkEnd{Host: a, Name: "x"}, topo.LinkEnd{Host: b, Name: "x"}, 1500); err != nil {
			t.Fatal(err)
		}
	}
	link()
	l, err := topo.NewLedger(lab)
	if err != nil {
		t.Fatal(err)
	}
	gro := map[string]bool{"rx-gro": true}
	if _, err := l.Set(a, "x", gro); err != nil {
		t.Fatal(err)
	}
	if err := a.Delete("x"); err != nil {
		t.Fatal(err)
	}
	link()
	if _, err := a.SetFeatures("x", gro); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if !everything(t, a, "x")["rx-gro"] {
		t.Error("the later interface was changed")
	}
	if _, err := l.Set(a, "y", gro); err == nil {
		t.Error("an interface that is not there was set")
	}
}

// sub is what a has of b's keys.
func sub(a, b map[string]bool) map[string]bool {
	c := map[string]bool{}
	for key := range b {
		c[key] = a[key]
	}
	return c
}
