package speaker

import (
	"context"
	"sync"
	"time"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
)

// told is something that GoBGP tells: one of its fields.
type told struct {
	paths []*apiutil.Path // received, of one neighbour
	end   *apiutil.Path   // End-of-RIB
	peer  *apiutil.WatchEventMessage_PeerEvent
	at    time.Time
}

// inbox is what waits for the speaker's goroutine: events, in their order, and errands of
// others, who do not wait for them.
type inbox struct {
	events chan told
	wake   chan struct{}
	queue  *queue
}

type queue struct {
	mu      sync.Mutex
	errands []func()
}

func newInbox() inbox {
	return inbox{make(chan told, 256), make(chan struct{}, 1), &queue{}}
}

// put waits for room.
func (i inbox) put(ctx context.Context, e told) {
	select {
	case i.events <- e:
	case <-ctx.Done():
	}
}

func (i inbox) send(errand func()) {
	i.queue.mu.Lock()
	i.queue.errands = append(i.queue.errands, errand)
	i.queue.mu.Unlock()
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// errands returns those that wait.
func (i inbox) errands() []func() {
	i.queue.mu.Lock()
	defer i.queue.mu.Unlock()
	errands := i.queue.errands
	i.queue.errands = nil
	return errands
}
