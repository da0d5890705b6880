package edge

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/api"
)

// Who asks an edge that has not started yet is told so at once.
func TestAskedWhileStarting(t *testing.T) {
	w := newWorld(t)
	opened, proceed := make(chan struct{}), make(chan struct{})
	open := w.opts.OpenHost
	w.opts.OpenHost = func(path string, log *slog.Logger) (Host, error) {
		close(opened)
		<-proceed
		return open(path, log)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, w.opts) }()
	<-opened
	c := api.Dial(w.opts.RuntimeDir, "a")
	if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "edge a is starting: ask again in a moment") {
		t.Errorf("asked too early: %v", err)
	}
	close(proceed)
	w.within("edge answers", func() bool { _, err := c.Status(t.Context()); return err == nil })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
