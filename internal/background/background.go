// Package background runs goroutines that have an owner, who ends them and waits for that.
//
// Its one invariant: when the function that ends a goroutine has returned, so has the goroutine. Do not use it for
// what ends by itself.
package background

import (
	"context"
	"sync"
	"time"
)

// Start runs f in a goroutine until ctx ends or the returned function is called, which waits for it.
func Start(ctx context.Context, f func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var owned sync.WaitGroup
	owned.Go(func() { f(ctx) })
	return func() { cancel(); owned.Wait() }
}

// Every does f again and again, an interval apart, until ctx ends or the returned function is called, which waits for it.
func Every(ctx context.Context, interval time.Duration, f func()) (end func()) {
	return Start(ctx, func(ctx context.Context) {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				f()
			}
		}
	})
}

// Ticker is a ticker whose interval changes: who has nothing to do wakes seldom.
type Ticker struct {
	*time.Ticker
	every time.Duration
}

// NewTicker ticks at an interval. It has to be stopped.
func NewTicker(every time.Duration) *Ticker { return &Ticker{time.NewTicker(every), every} }

// Every is the interval.
func (t *Ticker) Every() time.Duration { return t.every }

// Set begins another interval now; the same one goes on.
func (t *Ticker) Set(every time.Duration) {
	if every != t.every {
		t.every = every
		t.Reset(every)
	}
}

// OnEach does f with each that comes by a channel until the returned function is called, which waits for it.
func OnEach[T any](from <-chan T, f func(T)) (end func()) {
	return Start(context.Background(), func(ctx context.Context) {
		for {
			select {
			case <-ctx.Done():
				return
			case one := <-from:
				f(one)
			}
		}
	})
}

// Notify leaves a mark in a channel of capacity one, and waits for nobody.
func Notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is a mark
	}
}
