package topo

import (
	"errors"
	"runtime"

	"golang.org/x/sys/unix"
)

// thread is an OS thread that belongs to a namespace and runs functions one by
// one. Processes that it starts get their parent-death signal when it ends, so
// it must outlive them.
type thread struct {
	jobs chan func()
	quit chan struct{}
	done chan struct{}
}

// startThread calls enter on a new thread, which ends if that fails.
func startThread(enter func() error) (*thread, error) {
	t := &thread{jobs: make(chan func()), quit: make(chan struct{}), done: make(chan struct{})}
	entered := make(chan error)
	go t.loop(enter, entered)
	return t, <-entered
}

func (t *thread) loop(enter func() error, entered chan<- error) {
	// No unlock: a thread in another namespace ends with its goroutine.
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The first thread never ends and gives the whole process its face in
		// /proc, so it must not move: hold it until another has the work.
		elsewhere := make(chan error)
		go t.loop(enter, elsewhere)
		err := <-elsewhere
		runtime.UnlockOSThread()
		entered <- err
		return
	}
	defer close(t.done)
	if err := enter(); err != nil {
		entered <- err
		return
	}
	entered <- nil
	for {
		select {
		case job := <-t.jobs:
			job()
		case <-t.quit:
			return
		}
	}
}

// run calls f on the thread and waits for it.
func (t *thread) run(f func() error) error {
	err := errors.New("the function ended its goroutine")
	finished := make(chan struct{})
	job := func() {
		defer close(finished)
		err = f()
	}
	select {
	case t.jobs <- job:
		<-finished
		return err
	case <-t.done:
		return errClosed
	}
}

// stop ends the thread after the function that it runs. Its owner calls it once.
func (t *thread) stop() {
	close(t.quit)
	<-t.done
}
