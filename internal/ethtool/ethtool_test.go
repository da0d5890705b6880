package ethtool

import (
	"errors"
	"maps"
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"
	"unsafe"

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

// descend calls f with so many KiB of the stack taken.
//
//go:noinline
func descend(kib int, f func()) {
	var frame [1 << 10]byte
	if kib > 0 {
		descend(kib-1, f)
	} else {
		f()
	}
	runtime.KeepAlive(&frame)
}

// creep is descend by frames that are smaller than the one of the library's that outgrew stacks.
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

// TestAnswersAtEveryDepth asks from goroutines whose stacks have all kinds of room left. In the
// manner of the test that comes with the library's own cure.
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
	step := 2 // of less than the library's frame that outgrew stacks
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

// TestStackStays looks at the address of a variable while the stack below it is used and the
// garbage collector passes, for every size of stack that goroutines may start with.
func TestStackStays(t *testing.T) {
	for _, usual := range []int{0, 20, 50, 100, 200, 400, 800} {
		release := crowd(usual)
		runtime.GC() // sets the size to start with by what is used now
		size := startingSize()
		for _, earlier := range []int{0, 1200} { // what the library may take and give back before
			for _, deep := range []int{0, 4, 33, 64, 100, 400} {
				if moved(earlier, deep) {
					t.Errorf("stacks of %d KiB at first, %d KiB were used, now %d: moved", size>>10, earlier, deep)
				}
			}
		}
		release()
		if size < uint64(usual)<<10 {
			t.Errorf("goroutines start with %d B while they use %d KiB: the case was not tried", size, usual)
		}
	}
}

// moved says whether a question's stack moved while so many KiB of it were used, and then no more.
func moved(earlier, deep int) bool {
	yes, _ := ask(func(string) (bool, error) {
		descend(earlier, func() {})
		var here byte
		before := uintptr(unsafe.Pointer(&here))
		descend(deep, collect)
		collect()
		return uintptr(unsafe.Pointer(&here)) != before, nil
	}, "")
	return yes
}

// collect has the collector pass while the caller is where a stack may be shrunk.
func collect() {
	for range 2 {
		done := make(chan struct{})
		go func() {
			runtime.GC()
			close(done)
		}()
		<-done
	}
}

// crowd is many goroutines that use so much of their stacks, until they are released.
func crowd(kib int) (release func()) {
	var there, all sync.WaitGroup
	stop := make(chan struct{})
	for range 40 {
		there.Add(1)
		all.Go(func() {
			descend(kib+kib/10, func() { // more, for there are others that use less
				there.Done()
				<-stop
			})
		})
	}
	there.Wait()
	return func() {
		close(stop)
		all.Wait()
	}
}

func startingSize() uint64 {
	size := []metrics.Sample{{Name: "/gc/stack/starting-size:bytes"}}
	metrics.Read(size)
	return size[0].Value.Uint64()
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
