package agent

import (
	"log/slog"
	"slices"
	"time"

	"github.com/selvage/selvage/kube/internal/plan"
)

// conflictsEach is the time between two looks at what other programs have on the node.
const conflictsEach = 30 * time.Second

// conflicts are what the last look found that told all.
type conflicts struct {
	list   []string
	looked time.Time
}

// prepare makes the pair with the edge. Where another program has what the steering would use the node keeps what it has: there is no
// rule, and packets of the plan's pods go nowhere.
func (n *Node) prepare(p *plan.Plan, f *Found) error {
	if time.Since(n.others.looked) > conflictsEach {
		var list []string
		err := n.Within(func() (err error) { list, err = n.Steer.Conflicts(p.Cluster); return err })
		if err != nil && n.others.looked.IsZero() {
			return err
		}
		if err != nil { // such as what changed meanwhile
			slog.Warn("what other programs have on the node is not known", "err", err)
		} else if !slices.Equal(n.others.list, list) {
			slog.Warn("other programs of the node use what steers pods", "conflicts", list)
		}
		if err == nil {
			n.others = conflicts{list: list, looked: time.Now()}
		}
	}
	f.Conflicts = n.others.list
	if len(f.Conflicts) == 0 {
		return n.Within(n.Steer.Setup)
	}
	p.Steering = slices.Clone(p.Steering)
	for i := range p.Steering {
		p.Steering[i].Held = true
	}
	return nil
}
