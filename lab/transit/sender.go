package transit

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/lab/gen"
)

// generator is one of this host.
type generator struct{ *gen.Cores }

// NewSender is a generator of this host, as gen.NewCores has it, whose threads are real-time tasks while they send.
func NewSender(namespace string, ports []gen.Port, stream gen.Stream, cores []int) (Sender, error) {
	all, err := gen.NewCores(namespace, ports, stream, cores)
	if err != nil {
		return nil, err
	}
	return generator{all}, nil
}

// generatorPriority is the generator's, of a real-time task: its clock cannot wait for
// who else wants the core.
const generatorPriority = 1

// Run sends a load.
func (g generator) Run(ctx context.Context, load gen.Load) (gen.Sent, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return gen.Sent{}, fmt.Errorf("priority of the generator: %w", err)
	}
	realtime := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: generatorPriority}
	if err := unix.SchedSetAttr(0, &realtime, 0); err != nil {
		return gen.Sent{}, fmt.Errorf("real-time priority of the generator: %w (a control group may forbid it: cpu.rt_runtime_us)", err)
	}
	sent, err := g.Cores.Run(ctx, load)
	return sent, errors.Join(err, unix.SchedSetAttr(0, before, 0))
}
