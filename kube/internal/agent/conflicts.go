package agent

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/selvage/selvage/kube/internal/plan"
)

// conflictsEach is the time between two looks at what other programs have on the node.
const conflictsEach = 10 * time.Second

// conflicts are what the last look found.
type conflicts struct {
	list   []string
	err    error
	looked time.Time
}

// prepare makes the pair with the edge. Where another program has what the steering would use the node keeps what it has: there is no
// rule, and packets of the plan's pods go nowhere.
func (n *Node) prepare(p *plan.Plan, f *Found) error {
	if time.Since(n.others.looked) > conflictsEach {
		was := n.others.list
		n.others = conflicts{looked: time.Now()}
		n.others.err = n.Within(func() (err error) { n.others.list, err = n.Steer.Conflicts(p.Cluster); return err })
		if !slices.Equal(was, n.others.list) {
			slog.Warn("other programs of the node use what steers pods", "conflicts", n.others.list)
		}
	}
	f.Conflicts = n.others.list
	if len(f.Conflicts) == 0 {
		return errors.Join(n.others.err, n.Within(n.Steer.Setup))
	}
	p.Steering = slices.Clone(p.Steering)
	for i := range p.Steering {
		p.Steering[i].Held = true
	}
	return n.others.err
}
