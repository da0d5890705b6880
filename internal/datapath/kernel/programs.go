package kernel

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"
)

type hostLoader struct{}

// HostProgram is the kernel's own of a program of Host.
func HostProgram(p Program) *ebpf.Program { return p.(*ebpf.Program) }

// Cores implements Loader.
func (hostLoader) Cores() (int, error) {
	cores, err := ebpf.PossibleCPU()
	if err != nil {
		return 0, fmt.Errorf("count the cores: %w", err)
	}
	return cores, nil
}

// Load implements Loader.
func (hostLoader) Load(spec *ebpf.CollectionSpec, pinDir string) (*Objects, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("raise the memory lock limit for BPF maps: %w", err)
	}
	return load(spec, ebpf.CollectionOptions{Maps: ebpf.MapOptions{PinPath: pinDir}})
}

// LoadUpon implements Loader.
func (hostLoader) LoadUpon(spec *ebpf.CollectionSpec, maps map[string]Map) (*Objects, error) {
	shared := make(map[string]*ebpf.Map)
	for name, m := range maps {
		if own := spec.Maps[name]; own != nil {
			own.MaxEntries = m.MaxEntries()
			shared[name] = HostMap(m)
		}
	}
	return load(spec, ebpf.CollectionOptions{MapReplacements: shared})
}

func load(spec *ebpf.CollectionSpec, opts ebpf.CollectionOptions) (*Objects, error) {
	loaded, err := ebpf.NewCollectionWithOptions(spec, opts)
	if err != nil {
		return nil, loadError(err)
	}
	objects := &Objects{Maps: map[string]Map{}, Programs: map[string]Program{}}
	for name, m := range loaded.Maps {
		objects.Maps[name] = hostMap{m}
	}
	for name, p := range loaded.Programs {
		objects.Programs[name] = p
	}
	return objects, nil
}

func loadError(err error) error {
	var verr *ebpf.VerifierError
	if errors.As(err, &verr) {
		return fmt.Errorf("the kernel refused a program: %w\n%s", err, verifierTail(verr))
	}
	return fmt.Errorf("load the programs: %w", err)
}

// verifierTail is the end of the verifier's log, where the refusal stands.
func verifierTail(v *ebpf.VerifierError) string {
	lines := v.Log
	if len(lines) > 20 {
		lines = lines[len(lines)-20:]
	}
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l + "\n")
	}
	return b.String()
}

// NewMap implements Loader.
func (hostLoader) NewMap(spec *ebpf.MapSpec) (PinnedMap, error) {
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, err
	}
	return hostMap{m}, nil
}

// PinnedMap implements Loader.
func (hostLoader) PinnedMap(path string) (PinnedMap, error) {
	m, err := ebpf.LoadPinnedMap(path, nil)
	if err != nil {
		return nil, err
	}
	return hostMap{m}, nil
}

// NewRing implements Loader.
func (hostLoader) NewRing(m Map) (Ring, error) {
	r, err := ringbuf.NewReader(HostMap(m))
	if err != nil {
		return nil, err
	}
	return r, nil
}

// TakeMap is a map that Close leaves open; nil where there is none of the name.
func (o *Objects) TakeMap(name string) Map {
	m := o.Maps[name]
	delete(o.Maps, name)
	return m
}

// TakeProgram is a program that Close leaves open.
func (o *Objects) TakeProgram(name string) Program {
	p := o.Programs[name]
	delete(o.Programs, name)
	return p
}

// Close closes all maps and programs. A second one does nothing.
func (o *Objects) Close() error {
	var errs []error
	for name, m := range o.Maps {
		errs = append(errs, m.Close())
		delete(o.Maps, name)
	}
	for name, p := range o.Programs {
		errs = append(errs, p.Close())
		delete(o.Programs, name)
	}
	return errors.Join(errs...)
}
