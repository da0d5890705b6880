package ethtool

import (
	"errors"
	"maps"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/test/tier"
)

func open(t *testing.T) *Tool {
	t.Helper()
	tool, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tool.Close)
	return tool
}

// collecting has the garbage collector pass again and again until the test ends.
func collecting(t *testing.T) {
	var collector sync.WaitGroup
	stop := make(chan struct{})
	collector.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	})
	t.Cleanup(func() {
		close(stop)
		collector.Wait()
	})
}

// creep calls f with so many small frames on the stack.
//
//go:noinline
func creep(frames int, f func()) {
	var frame [48]byte
	if frames > 0 {
		creep(frames-1, f)
	} else {
		f()
	}
	runtime.KeepAlive(&frame)
}

// TestAnswersAtEveryDepth asks from goroutines whose stacks have all kinds of room left, so that
// some are moved while the kernel answers.
func TestAnswersAtEveryDepth(t *testing.T) {
	tool := open(t)
	want, err := tool.Features("lo")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tx-checksum-ip-generic", "tx-tcp-segmentation", "rx-gro"} {
		if _, ok := want[name]; !ok {
			t.Fatalf("lo has %d offloads, %s is not among them", len(want), name)
		}
	}
	collecting(t)
	step := 2
	if tier.IsLong() {
		step = 1
	}
	for depth := 0; depth < 500; depth += step { // 40 KiB
		var asking sync.WaitGroup
		asking.Go(func() {
			creep(depth, func() {
				have, err := tool.Features("lo")
				if err != nil || !maps.Equal(have, want) {
					t.Errorf("%d frames deep: %d offloads, error %v, want %d", depth, len(have), err, len(want))
				}
			})
			creep(depth, func() {
				have, err := tool.FeaturesWithState("lo")
				if err != nil || !maps.Equal(active(have), want) {
					t.Errorf("%d frames deep: %d states, error %v, want %d", depth, len(have), err, len(want))
				}
			})
		})
		asking.Wait()
	}
}

func active(states map[string]FeatureState) map[string]bool {
	on := map[string]bool{}
	for name, s := range states {
		on[name] = s.Active
	}
	return on
}

// An answer that is longer than what there is for it is an error, and nothing else's end.
func TestLongAnswers(t *testing.T) {
	tool := open(t)
	names, err := tool.names("lo", setFeatures)
	if err != nil || len(names) < 2 {
		t.Fatalf("%d names, %v", len(names), err)
	}
	err = tool.ask("lo", unix.ETHTOOL_GSTRINGS, 12+textLength, func(m message) { m.put(4, setFeatures) }, nil)
	if !errors.Is(err, unix.EFAULT) {
		t.Errorf("an answer beyond its memory: %v, want %v", err, unix.EFAULT)
	}
}

// The kernel's errors come through every question, as what they are.
func TestErrors(t *testing.T) {
	tool := open(t)
	const gone = "no-such-device"
	for what, question := range map[string]func() error{
		"Features":          func() error { _, err := tool.Features(gone); return err },
		"FeaturesWithState": func() error { _, err := tool.FeaturesWithState(gone); return err },
		"Change":            func() error { return tool.Change(gone, map[string]bool{"rx-gro": true}) },
		"DriverInfo":        func() error { _, err := tool.DriverInfo(gone); return err },
		"DriverName":        func() error { _, err := tool.DriverName(gone); return err },
		"Speed":             func() error { _, err := tool.Speed(gone); return err },
		"Ring":              func() error { _, err := tool.Ring(gone); return err },
		"Channels":          func() error { _, err := tool.Channels(gone); return err },
		"Pause":             func() error { _, err := tool.Pause(gone); return err },
		"SetPause":          func() error { return tool.SetPause(gone, Pause{}) },
		"Coalesce":          func() error { _, err := tool.Coalesce(gone); return err },
		"Stats":             func() error { _, err := tool.Stats(gone); return err },
	} {
		if err := question(); !errors.Is(err, unix.ENODEV) {
			t.Errorf("%s: %v, want %v", what, err, unix.ENODEV)
		}
	}
	if err := tool.Change("lo", map[string]bool{"no-such-offload": true}); err == nil {
		t.Error("an offload that the kernel does not know was set")
	}
}
