package simulation

import (
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/datapath/lockstep"
	"github.com/selvage/selvage/internal/datapath/mapmodel"
	"github.com/selvage/selvage/test/tier"
)

// machine is what an edge runs on: a model of a kernel, or that in step with the kernel.
type machine interface {
	Kernel() kernel.Kernel
	Refuse(mapmodel.Faults)
	Kill()
	AddInterface(ifindex int)
	RemoveInterface(ifindex int)
	Map(name string) kernel.Map
	Contents(name string) map[string]string
	Attached() []mapmodel.Attached
	// Differences are those between model and kernel.
	Differences() []string
	PinRoot() string
}

// booted is how a world gets its machine.
type booted func(t *testing.T, seed uint64) machine

// modelOnly is a machine that needs no root.
type modelOnly struct{ *mapmodel.Machine }

func bootModel(_ *testing.T, seed uint64) machine { return modelOnly{mapmodel.New(seed)} }

func (modelOnly) AddInterface(int)      {}
func (modelOnly) Differences() []string { return nil }
func (modelOnly) PinRoot() string       { return "/bpf" }

// inStep is a model and the kernel, whose interfaces are in a network namespace.
type inStep struct {
	*lockstep.Machine
	t    *testing.T
	nl   *netlink.Handle
	far  netns.NsHandle // of the other ends, whose numbers are their own
	root string
}

var machines atomic.Int32

func bootKernel(t *testing.T, seed uint64) machine {
	ns, far := emptyNamespace(t), emptyNamespace(t)
	nl, err := netlink.NewHandleAt(ns)
	if err != nil {
		t.Fatal(err)
	}
	m := &inStep{t: t, nl: nl, far: far, root: fmt.Sprintf("/sys/fs/bpf/selvage-simulation-%d-%d", os.Getpid(), machines.Add(1))}
	m.Machine = lockstep.New(seed, func(do func()) { within(t, ns, do) })
	t.Cleanup(func() {
		if n := m.Calls(); n < 1000 {
			t.Errorf("%d calls were compared: that says nothing", n)
		}
		m.Kill()
		nl.Close()
		if err := os.RemoveAll(m.root); err != nil {
			t.Error(err)
		}
		ns.Close()
		far.Close()
	})
	for _, ifindex := range []int{2, 3, groNear, groFar} { // the underlay and what Ensure makes
		m.AddInterface(ifindex)
	}
	return m
}

// emptyNamespace is a network namespace in which nothing is sent.
func emptyNamespace(t *testing.T) netns.NsHandle {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	old, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	ns, err := netns.New()
	if back := netns.Set(old); back != nil {
		panic(back) // this thread must not be used by anybody
	}
	if err != nil {
		t.Fatalf("make a network namespace: %v", err)
	}
	return ns
}

func within(t *testing.T, ns netns.NsHandle, do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	old, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := netns.Set(old); err != nil {
			panic(err)
		}
		old.Close()
	}()
	if err := netns.Set(ns); err != nil {
		t.Fatal(err)
	}
	do()
}

func (m *inStep) PinRoot() string { return m.root }

// AddInterface adds an interface that is down: no packet comes there.
func (m *inStep) AddInterface(ifindex int) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.Index = fmt.Sprintf("dev%d", ifindex), ifindex
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: attrs.Name, PeerNamespace: netlink.NsFd(m.far)}
	if err := m.nl.LinkAdd(veth); err != nil {
		m.t.Fatalf("add interface %d: %v", ifindex, err)
	}
}

func (m *inStep) RemoveInterface(ifindex int) {
	attrs := netlink.NewLinkAttrs()
	attrs.Index = ifindex
	if err := m.nl.LinkDel(&netlink.Veth{LinkAttrs: attrs}); err != nil {
		m.t.Fatalf("remove interface %d: %v", ifindex, err)
	}
	m.Machine.RemoveInterface(ifindex)
}

func (m *inStep) Differences() []string {
	m.Compare()
	return m.Machine.Differences()
}

// kernelSeeds are run on the kernel by each make test; make test-long has as many as kernelSeedsLong.
const kernelSeeds, kernelSeedsLong = 10, 50

// The simulation on the maps and links of the kernel: the reference reads those, and the model that the
// other seeds run on holds and answers the same.
func TestSimulationOnKernel(t *testing.T) {
	tier.Root(t)
	runSeeds(t, bootKernel, 1, kernelSeeds)
}

// More of the same.
func TestSimulationOnKernelLong(t *testing.T) {
	tier.Root(t)
	tier.Long(t, "TestSimulationOnKernel")
	runSeeds(t, bootKernel, kernelSeeds+1, kernelSeedsLong)
}
