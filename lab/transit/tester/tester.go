// Package tester is the part of a tester at one side of a device under test: ports that exist, who answers there for the
// hosts of a stream, and what sends and takes in its frames; of this host, or of another one by an agent.
//
// Its invariant: nothing of a host is changed but by file descriptors of the process there, so that a killed one leaves
// nothing behind. Do not use it for a device that the lab builds; that is package transit.
package tester

import (
	"context"
	"net"
	"net/netip"

	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/losses"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/neighbour"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/lab/transit"
)

// Ports are those at one side of a device. They are of one network namespace.
type Ports interface {
	// Host says how many cores the host has and which kernel.
	Host() Host
	// Links are the ports as they were when they were opened, in the order of their names.
	Links() []topo.Port
	// Answer begins to answer for neighbours, by port.
	Answer(ctx context.Context, by []neighbour.Options) error
	// Resolve asks the device for its MAC address at a port, until ctx ends.
	Resolve(ctx context.Context, q Question) (net.HardwareAddr, error)
	// Announce shows a port to the switches behind it, from an address.
	Announce(ctx context.Context, port int, addr netip.Addr) error
	// Answered is how many requests for neighbours were answered.
	Answered(ctx context.Context) (uint64, error)
	// Overflows are the frames that the receive rings had no room for, by port.
	Overflows(ctx context.Context) (losses.Counts, error)
	// CPU are the clocks of the host's cores.
	CPU(ctx context.Context) (measure.CPUClock, error)

	// Sender, Sink and Reflector are as in package gen, at interfaces by their index. They have to be closed.
	Sender(o SenderOptions) (transit.Sender, error)
	Sink(at []int, o gen.SinkOptions) (transit.Sink, error)
	Reflector(at []int, o gen.ReflectorOptions) (stop func() error, err error)

	// Close ends the answers, and a session with an agent.
	Close() error
}

// Name is that of an interface in a network namespace, "" being the one that the process there has.
type Name struct{ Namespace, Name string }

// Host is where ports are.
type Host struct {
	Cores  []int  // that may be pinned to
	Kernel string // its release
	Boot   string // of one machine since it started, the same: one clock
}

// Question is for the MAC address of Addr, asked at a port from an address of the tester.
type Question struct {
	Port int
	Addr netip.Addr
	From netip.Addr
}

// SenderOptions are what transit.NewSender is given besides the namespace.
type SenderOptions struct {
	Ports  []gen.Port
	Stream gen.Stream
	Cores  []int
}
