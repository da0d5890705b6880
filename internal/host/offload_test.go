package host

import (
	"maps"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/ethtool"
)

// TestEnsureOffloads has a mode set, changed and given up: by the same process, and by the
// next one after a kill.
func TestEnsureOffloads(t *testing.T) {
	const segments, sums = "tx-udp_tnl-segmentation", "tx-checksum-ip-generic"
	b := newBench(t)
	tool, err := ethtool.Open()
	b.must(err)
	defer tool.Close()
	features := func() map[string]bool {
		all, err := tool.Features("us")
		b.must(err)
		return all
	}
	before := features()
	off := func(names ...string) (list []Offload) {
		for _, name := range names {
			list = append(list, Offload{Interface: "us", Feature: name})
		}
		return list
	}
	h := b.open()
	for _, names := range [][]string{{segments}, {segments, sums}, {sums}, {}, {sums, segments}} {
		b.must(h.Ensure(Desired{Offloads: off(names...)}))
		b.must(h.Ensure(Desired{Offloads: off(names...)})) // again is no change
		now := features()
		for _, name := range []string{segments, sums} {
			if now[name] == slices.Contains(names, name) {
				t.Errorf("held %v: %s is %v", names, name, now[name])
			}
		}
	}
	h.Close() // killed
	h = b.open()
	defer h.Close()
	b.must(h.Ensure(Desired{Offloads: []Offload{{"us", segments, false}, {"gone", sums, false}, {"us", "unknown", false}}}))
	if now := features(); now[segments] || !now[sums] {
		t.Errorf("the next process kept %v of what it wants and restored %v", now[segments], now[sums])
	}
	b.must(tool.Change("us", map[string]bool{segments: true})) // an operator
	b.must(h.Ensure(Desired{Offloads: off(segments)}))
	if !features()[segments] {
		t.Error("what an operator changed since then was changed again")
	}
	b.must(h.Ensure(Desired{}))
	if after := features(); !maps.Equal(before, after) {
		t.Errorf("not as before:\n%v\n%v", before, after)
	}
}

// The pair cuts what goes in, and joins no datagrams, whatever a script sets for all interfaces.
func TestGRODeviceCuts(t *testing.T) {
	b := newBench(t)
	tool, err := ethtool.Open()
	b.must(err)
	defer tool.Close()
	h := b.open()
	defer h.Close()
	for range 2 {
		b.must(h.Ensure(Desired{GRODevice: "svgtest"}))
		near, err := tool.Features("svgtestn")
		b.must(err)
		far, err := tool.Features("svgtestf")
		b.must(err)
		if near["tx-udp-segmentation"] || near["tx-tcp-segmentation"] || far["rx-udp-gro-forwarding"] || far["rx-gro-list"] || !far["rx-gro"] {
			t.Errorf("near %v, far %v", near, far)
		}
		b.must(tool.Change("svgtestn", map[string]bool{"tx-udp-segmentation": true}))
		b.must(tool.Change("svgtestf", map[string]bool{"rx-udp-gro-forwarding": true, "rx-gro-list": true}))
	}
	b.must(h.Ensure(Desired{}))
}
