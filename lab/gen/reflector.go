package gen

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// Reflector sends tunnel packets with a frame of any stream inside back to where
// they came from, as an XDP program, and such frames without a tunnel if it is told to:
// addresses of all Ethernet and IP headers and the inner ports change places. Other frames
// go on to the kernel.
type Reflector struct{ receiver receiver }

// NewReflector attaches a Reflector to interfaces of a network namespace, as
// NewSink does.
func NewReflector(namespace string, ifindexes []int, o ReflectorOptions) (*Reflector, error) {
	r, err := loadReflector(o)
	if err != nil {
		return nil, fmt.Errorf("reflector: %w", err)
	}
	if err := r.receiver.attach(namespace, ifindexes); err != nil {
		return nil, errors.Join(fmt.Errorf("reflector: %w", err), r.Close())
	}
	return r, nil
}

// loadReflector is a Reflector that is at no interface yet.
func loadReflector(o ReflectorOptions) (*Reflector, error) {
	spec, err := o.spec()
	if err != nil {
		return nil, err
	}
	if err := setVariables(spec, map[string]any{genVarReflectPlain: o.Plain, genVarReflectRedirect: o.Redirect}); err != nil {
		return nil, err
	}
	var objects struct {
		Program   *ebpf.Program `ebpf:"reflect"`
		Counters  *ebpf.Map     `ebpf:"counters"`
		Arounds   *ebpf.Map     `ebpf:"arounds"`
		Foreigns  *ebpf.Map     `ebpf:"foreigns"`
		Addresses *ebpf.Map     `ebpf:"addresses"`
	}
	if err := spec.LoadAndAssign(&objects, nil); err != nil {
		return nil, err
	}
	return &Reflector{receiver{
		mode: o.Mode, program: objects.Program, counters: objects.Counters, arounds: objects.Arounds, foreigns: objects.Foreigns, addresses: objects.Addresses,
	}}, nil
}

// Reset forgets the counts.
func (r *Reflector) Reset() error {
	if err := r.receiver.reset(); err != nil {
		return fmt.Errorf("reflector: %w", err)
	}
	return nil
}

// Read says how many frames went back since Reset (Frames, Bytes, Core, Around)
// and what else came.
func (r *Reflector) Read() (Report, error) {
	report, err := r.receiver.read()
	if err != nil {
		return Report{}, fmt.Errorf("reflector: %w", err)
	}
	return report, nil
}

// Close detaches it.
func (r *Reflector) Close() error { return r.receiver.close() }
