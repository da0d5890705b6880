// Package writer is the one goroutine that writes the tables of an open data path: what is planned, what
// is steered, and what BGP learned.
//
// Its one invariant: what is steered or withdrawn waits for no plan, and for no table that is being
// written, but for one object of it. And of what was decided about a path, a gateway or a route the last word counts,
// also when tables were planned before and are written after it. Do not use it to read: what expires
// by itself and what is only read needs no turn here.
package writer

import (
	"context"
	"runtime"
)

// Queue has jobs done by one goroutine, the most urgent first. Nothing waits in it but who calls.
type Queue struct {
	enter                  func() error
	urgent, ordinary, long chan job
	ended                  chan struct{}
}

type job struct {
	do   func()
	done chan struct{}
}

// NewQueue makes a queue. enter has the thread that does jobs be where they must be done; nil: it is.
func NewQueue(enter func() error) *Queue {
	return &Queue{enter: enter, urgent: make(chan job), ordinary: make(chan job), long: make(chan job), ended: make(chan struct{})}
}

// Run does jobs until ctx ends. It runs once. An error is that the thread could not be where jobs must be done.
func (q *Queue) Run(ctx context.Context, report func(error)) {
	defer close(q.ended)
	runtime.LockOSThread() // for good: the thread may be in another network namespace than others
	if q.enter != nil {
		if err := q.enter(); err != nil {
			report(err)
		}
	}
	for {
		q.overtake()
		select {
		case j := <-q.urgent:
			j.run()
		case j := <-q.ordinary:
			j.run()
		case j := <-q.long:
			j.run()
		case <-ctx.Done():
			return
		}
	}
}

func (j job) run() {
	defer close(j.done)
	j.do()
}

// Urgent has do done before all that is not, and waits for it. It reports whether that was done: the goroutine may end before.
func (q *Queue) Urgent(do func()) bool { return q.put(q.urgent, do) }

// Ordinary has do done in turn with others, also while a long job works.
func (q *Queue) Ordinary(do func()) bool { return q.put(q.ordinary, do) }

// Long has do done, in which Yield and Beside are to be called.
func (q *Queue) Long(do func()) bool { return q.put(q.long, do) }

func (q *Queue) put(to chan<- job, do func()) bool {
	j := job{do, make(chan struct{})}
	select {
	case to <- j:
		<-j.done
		return true
	case <-q.ended:
		return false
	}
}

// overtake does all that is urgent.
func (q *Queue) overtake() {
	for {
		select {
		case j := <-q.urgent:
			j.run()
		default:
			return
		}
	}
}

// Yield is called by a long job where others may be done: all that is urgent, and one that is not.
func (q *Queue) Yield() {
	q.overtake()
	select {
	case j := <-q.ordinary:
		j.run()
	default:
	}
	q.overtake()
}

// Beside is called by a long job. It does what must not touch what jobs touch, and others meanwhile.
func (q *Queue) Beside(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // until it ends, with its thread
		if q.enter != nil {
			_ = q.enter() // as for Run, which has reported it
		}
		do()
	}()
	for {
		q.overtake()
		select {
		case <-done:
			return
		case j := <-q.urgent:
			j.run()
		case j := <-q.ordinary:
			j.run()
		}
	}
}
