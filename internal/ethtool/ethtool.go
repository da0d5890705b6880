// Package ethtool asks and changes network adapters by ethtool's ioctls: the library
// safchain/ethtool, on stacks that stay where they are.
//
// Its one invariant: whatever the library asks the kernel, it asks in hold. Up to v0.7.0 it
// keeps addresses of its variables as numbers (uintptr), of which the runtime knows nothing:
// when the goroutine's stack moves before the ioctl, the kernel writes to where the variable
// was, and the answer is empty or worse. Its pull request 139 cures that and is in no release;
// with the first that has it, this package goes and its users import the library.
package ethtool

import (
	"runtime"
	"sync"

	"github.com/safchain/ethtool"
)

type (
	// DriverInfo tells who drives an interface.
	DriverInfo = ethtool.DrvInfo
	// FeatureState is an offload and what may be done with it.
	FeatureState = ethtool.FeatureState
	// Ring is how many frames an adapter's queues hold.
	Ring = ethtool.Ring
	// Channels are an adapter's queues.
	Channels = ethtool.Channels
	// Pause is Ethernet's flow control.
	Pause = ethtool.Pause
	// Coalesce is how long an adapter waits before it interrupts.
	Coalesce = ethtool.Coalesce
)

// Tool asks in one network namespace. Its methods may be called from any thread, take an
// interface by its name and return the kernel's unix.Errno as it is.
type Tool struct{ library *ethtool.Ethtool }

// Open opens a tool in the network namespace of the calling thread.
func Open() (*Tool, error) {
	library, err := ethtool.NewEthtool()
	if err != nil {
		return nil, err
	}
	return &Tool{library}, nil
}

// Close ends the asking.
func (t *Tool) Close() { t.library.Close() }

// Features are the offloads that are in force, by the kernel's names.
func (t *Tool) Features(name string) (map[string]bool, error) {
	return ask(t.library.Features, name)
}

// FeaturesWithState are the offloads by the kernel's names.
func (t *Tool) FeaturesWithState(name string) (map[string]FeatureState, error) {
	return ask(t.library.FeaturesWithState, name)
}

// Change turns offloads on or off, by the kernel's names. The driver may leave some as they
// were without an error; a name that the kernel does not know is one.
func (t *Tool) Change(name string, features map[string]bool) error {
	_, err := ask(func(name string) (struct{}, error) {
		return struct{}{}, t.library.Change(name, features)
	}, name)
	return err
}

// DriverInfo tells who drives the interface.
func (t *Tool) DriverInfo(name string) (DriverInfo, error) { return ask(t.library.DriverInfo, name) }

// DriverName is the name of the interface's driver.
func (t *Tool) DriverName(name string) (string, error) { return ask(t.library.DriverName, name) }

// Speed is in Mbit/s, by ETHTOOL_GSET, which the kernel converts to; GLINKSETTINGS of the
// library does not fit all kernels. The value for unknown is a number as well.
func (t *Tool) Speed(name string) (mbps uint32, err error) {
	return ask(func(name string) (uint32, error) {
		var settings ethtool.EthtoolCmd
		return t.library.CmdGet(&settings, name)
	}, name)
}

// Ring is the size of the queues.
func (t *Tool) Ring(name string) (Ring, error) { return ask(t.library.GetRing, name) }

// Channels is the number of queues.
func (t *Tool) Channels(name string) (Channels, error) { return ask(t.library.GetChannels, name) }

// Pause is the flow control.
func (t *Tool) Pause(name string) (Pause, error) { return ask(t.library.GetPause, name) }

// Coalesce is the rule for interrupts.
func (t *Tool) Coalesce(name string) (Coalesce, error) { return ask(t.library.GetCoalesce, name) }

// Stats are the counters of the driver.
func (t *Tool) Stats(name string) (map[string]uint64, error) { return ask(t.library.Stats, name) }

// ask puts a question about an interface in a goroutine of its own, whose stack is as small yet
// as hold expects it.
func ask[Answer any](question func(string) (Answer, error), name string) (answer Answer, err error) {
	var asking sync.WaitGroup
	asking.Go(func() {
		hold(func() { answer, err = question(name) })
	})
	asking.Wait()
	return answer, err
}

// hold calls f, which is the library, on a stack that does not move while numbers stand for
// addresses on it. As of Go 1.26 (runtime/stack.go), a stack's size is a power of two, and it
// moves only to become
//
//   - larger, when a function needs more than is left. These 512 KiB and what is above them
//     make it 1 MiB or more, of which nearly half are left, and the library takes 50 KiB. Built
//     with -race or without optimization, its getNames takes 1 MiB more; then the stack grows
//     to 2 MiB as that function is entered, which is before it has an address, and its callers
//     have none yet;
//   - smaller, when less than a quarter is used as the garbage collector passes: these 512 KiB
//     are a quarter of 2 MiB. Only where goroutines use nearly 2 MiB on average does the
//     runtime start one with a larger stack.
//
// Nothing is written to the four, so their memory is not touched.
//
//go:noinline
func hold(f func()) {
	var a, b, c, d [128 << 10]byte // a larger variable would be on the heap
	f()
	runtime.KeepAlive(&a)
	runtime.KeepAlive(&b)
	runtime.KeepAlive(&c)
	runtime.KeepAlive(&d)
}
