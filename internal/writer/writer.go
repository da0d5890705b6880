package writer

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/rib"
)

// Liveness is what is known of paths. Its methods wait for nobody.
type Liveness interface {
	// Results are nil where nothing is watched.
	Results() map[overlay.Pair]bfd.Result
	// Since is when the watching began; zero: it did not.
	Since() time.Time
	// Dead are BGP neighbours that answered and no longer do, and why.
	Dead() map[netip.Addr]string
	// SetService says what this edge does for others, which all remotes are told.
	SetService(service bfd.Service)
}

// Options are what a Writer needs.
type Options struct {
	Edge     overlay.Edge // until there are tables
	Role     *gateway.Role
	Liveness Liveness
	// Enter has a thread be in the edge's network namespace; nil: it is.
	Enter func() error
}

// Snapshot is what plans rest on.
type Snapshot struct {
	Edge      overlay.Edge
	HostState host.State
	Probed    map[overlay.Pair]int // path MTUs
	// Losses is what Writer.Losses was before the host was observed.
	Losses uint64
}

// view is of tables that are in force.
type view struct {
	dp *DataPath // nil until it has tables
	Snapshot
	paths   PathPlan
	routing *plan.Routing // of the snapshot, and what was learned since
	reach   map[string]map[netip.Addr]bool
}

// Writer writes tables. All but what is published belongs to the goroutine of its queue.
type Writer struct {
	queue    *Queue
	role     *gateway.Role
	liveness Liveness

	view view
	// outgoing are the tables of a data path that is being replaced: packets obey it until the programs
	// of the next one are attached.
	outgoing *view
	// since is what was learned since the tables were planned that are to be written next, and replaced
	// that it takes the place of all before. Without such tables nothing is noted.
	planning bool
	since    []rib.LearnedRoute
	replaced bool
	failed   bool // the last time that something was steered
	// lost are links of the view that were lost since its host was observed: by index, as how many-th of losses.
	lost   map[int]uint64
	losses atomic.Uint64

	published atomic.Pointer[Published]
}

// Published is what others may read. It is replaced, never changed.
type Published struct {
	Snapshot
	Paths   PathPlan
	Outages plan.Outages
}

// New makes the writer of an edge that has no tables yet.
func New(o Options) *Writer {
	w := &Writer{queue: NewQueue(o.Enter), role: o.Role, liveness: o.Liveness, lost: make(map[int]uint64)}
	w.view.Edge, w.view.routing = o.Edge, plan.NewRouting(o.Edge, nil)
	w.publish()
	return w
}

// Run writes until ctx ends, when nothing is to be written any more. It runs once, and reports when its
// thread cannot be in the edge's network namespace.
func (w *Writer) Run(ctx context.Context, report func(error)) { w.queue.Run(ctx, report) }

// Urgent has do done by the goroutine before what is not urgent, and waits for it.
func (w *Writer) Urgent(do func()) { w.queue.Urgent(do) }

func (w *Writer) publish() {
	w.published.Store(&Published{w.view.Snapshot, w.view.paths, w.view.routing.Outages()})
}

// InForce is what the tables rest on, and which paths are used.
func (w *Writer) InForce() *Published { return w.published.Load() }

// Routes are those of all routers, with what was learned by now; none after the end.
func (w *Writer) Routes() []plan.Table {
	var routing *plan.Routing
	if !w.queue.Ordinary(func() { routing = w.view.routing.Snapshot() }) {
		return nil
	}
	return routing.All()
}

// Stand has nothing be steered any more.
func (w *Writer) Stand() { w.queue.Urgent(func() { w.view.dp = nil }) }

// Leave gives this edge's work to other gateways, and has nothing be steered any more.
func (w *Writer) Leave() (err error) {
	w.queue.Urgent(func() {
		if w.view.dp != nil {
			err = w.role.Leave(w.facts(w.view.Snapshot), steering{w})
			w.view.dp = nil
		}
	})
	return err
}

// Frames does something with the frames of the tables in force, if there are any, in turn with others.
func (w *Writer) Frames(do func(Frames)) {
	w.queue.Ordinary(func() {
		if w.view.dp != nil {
			do(w.view.dp.Frames)
		}
	})
}
