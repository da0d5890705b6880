package edge

import "github.com/selvage/selvage/internal/problem"

// pins are how long those of the data path live.
type pins struct {
	shortLived bool // they end with the mount namespace of this process
}

// lookAtPins finds out, and warns at the start of an edge.
func lookAtPins(e *edge) {
	if e.pins.shortLived, _ = e.opts.PinsEnd(e.opts.PinRoot); e.pins.shortLived {
		e.log.Warn(shortLivedPins)
	}
}

// endWithProcess reports whether the pins are gone when this process is: what they keep is better removed in order.
func (p pins) endWithProcess(o RunOptions) bool {
	if !p.shortLived {
		return false
	}
	_, withProcess := o.PinsEnd(o.PinRoot)
	return withProcess
}

// shortLivedPins is why a data path does not outlive its process, and what to do.
const shortLivedPins = "the data path ends with this mount namespace, so it may end with the edge's process: /sys/fs/bpf here is a BPF file system of this " +
	"namespace alone: mount the host's there (container: -v /sys/fs/bpf:/sys/fs/bpf; network namespace: nsenter --net=/run/netns/NAME)"

func (p pins) problems() []problem.Problem {
	if !p.shortLived {
		return nil
	}
	return []problem.Problem{problem.Warning("%s", shortLivedPins)}
}
