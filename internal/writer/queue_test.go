package writer

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
)

// What is urgent is done first, also in the middle of what is long, and one of the ordinary jobs at each of its yields.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(nil)
		ctx, end := context.WithCancel(t.Context())
		go q.Run(ctx, nil)
		var order []string
		add := func(what string) func() { return func() { order = append(order, what) } }
		began, goOn := make(chan struct{}), make(chan struct{})
		go q.Long(func() {
			order = append(order, "begin")
			close(began)
			<-goOn
			q.Yield()
			order = append(order, "middle")
			q.Yield()
			order = append(order, "end")
		})
		<-began
		for _, what := range []string{"install 1", "install 2", "install 3"} {
			go q.Ordinary(add(what))
			synctest.Wait()
		}
		go q.Urgent(add("failover"))
		synctest.Wait()
		go q.Urgent(add("withdrawal"))
		synctest.Wait()
		close(goOn)
		synctest.Wait()
		want := []string{"begin", "failover", "withdrawal", "install 1", "middle", "install 2", "end", "install 3"}
		if !slices.Equal(order, want) {
			t.Errorf("done %q, want %q", order, want)
		}
		end()
		synctest.Wait()
		if q.Urgent(func() {}) {
			t.Error("a job was done after the end")
		}
	})
}

// While something long is done beside, others have their turn.
func TestBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(nil)
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go q.Run(ctx, nil)
		loaded, done := make(chan struct{}), make(chan struct{})
		go q.Long(func() {
			q.Beside(func() { <-loaded })
			close(done)
		})
		synctest.Wait()
		n := 0
		for range 100 {
			q.Ordinary(func() { n++ })
			q.Urgent(func() { n++ })
		}
		select {
		case <-done:
			t.Error("it was not waited for")
		default:
		}
		close(loaded)
		if <-done; n != 200 {
			t.Errorf("%d jobs were done, want 200", n)
		}
	})
}
