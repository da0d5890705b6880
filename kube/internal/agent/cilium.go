package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/selvage/selvage/internal/cilium"
)

const (
	// ciliumEach is the time between two questions to Cilium's agent once its mode is known, which changes with a restart of it.
	ciliumEach = 30 * time.Second
	// ciliumMost is how long the agent's loop waits for an answer, by a unix socket of the same node.
	ciliumMost = time.Second
)

// hostRouting watches over how Cilium forwards packets of pods.
type hostRouting struct {
	socket string // of Cilium's agent; "" where it is not to be asked
	// unasked reports whether Cilium is on the node all the same.
	unasked func(context.Context) (bool, error)

	mode  cilium.Mode // it said last; what it has loaded forwards on while its agent is away
	err   error       // of the last question
	asked time.Time   // when that was
}

// problem is why packets of pods cannot be steered here, "" where they can.
func (h *hostRouting) problem(ctx context.Context) string {
	if h.socket == "" {
		return h.unaskedProblem(ctx)
	}
	if h.mode == "" || time.Since(h.asked) > ciliumEach {
		h.ask(ctx)
	}
	switch h.mode {
	case cilium.BPF:
		return "Cilium has packets of this node's pods go past the node's routing (BPF host routing), so none reaches the edge: set bpf.hostLegacyRouting=true in Cilium's values"
	case "":
		return fmt.Sprintf("whether Cilium has packets of this node's pods go past the node's routing is not known: %v", h.err)
	}
	return ""
}

func (h *hostRouting) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, ciliumMost, fmt.Errorf("no answer at %s in %s", h.socket, ciliumMost))
	defer cancel()
	mode, err := cilium.HostRouting(ctx, h.socket)
	if err == nil && mode == "" {
		err = fmt.Errorf("there is no socket %s, Cilium's agent does not run", h.socket)
	}
	if err == nil {
		h.mode = mode
	}
	h.err, h.asked = err, time.Now()
}

func (h *hostRouting) unaskedProblem(ctx context.Context) string {
	if h.unasked == nil {
		return ""
	}
	is, err := h.unasked(ctx)
	switch {
	case err != nil:
		return fmt.Sprintf("whether Cilium is on this node is not known: %v", err)
	case is:
		return "Cilium is on this node (it has a CiliumNode), and the agent may not ask it how it routes: upgrade the release, or set node.cilium=true in its values; if Cilium is gone, delete the CiliumNode"
	}
	return ""
}
