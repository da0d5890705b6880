package agent

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/kube/internal/plan"
)

// lingerMost is how long the node need not find a pod whose object is gone, or says that the pod is over, to take it for gone.
const lingerMost = 20 * time.Second

// lingering are the addresses that the node steers and no pod of the API server has, as long as something answers for them on the node: the
// end of an object is not that of the processes. What steers them is read back from the kernel, so that an agent that starts knows them.
func (n *Node) lingering(ctx context.Context, in *plan.Input) error {
	steered := map[string][]netip.Addr{}
	for _, s := range n.last.Steering {
		steered[plan.ShortKey(s.Policy)] = append(steered[plan.ShortKey(s.Policy)], s.Pods...)
	}
	return n.Within(func() (err error) {
		if n.wanted == "" {
			if steered, err = n.Steer.Steered(ctx); err != nil {
				return fmt.Errorf("what the node steers: %w", err)
			}
		}
		was := n.linger
		n.linger, in.Lingering = map[netip.Addr]time.Time{}, map[string][]netip.Addr{}
		for key, addresses := range steered {
			for _, a := range addresses {
				if slices.ContainsFunc(in.Pods, func(p plan.Pod) bool { return p.Leaves() && slices.Contains(p.Addresses, a) }) {
					continue
				}
				found, err := n.Steer.Finds(a)
				last, known := was[a]
				if found || err != nil || !known {
					last = time.Now()
				}
				if time.Since(last) < lingerMost {
					n.linger[a] = last
					in.Lingering[key] = append(in.Lingering[key], a)
				}
			}
		}
		return nil
	})
}
