package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// listener ends a question when nothing comes for too long.
type listener struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	silence time.Duration
	timer   *time.Timer
}

// silentError is the cause of that.
type silentError time.Duration

// Error says for how long.
func (e silentError) Error() string { return fmt.Sprintf("it says nothing for %s", time.Duration(e)) }

// Timeout is as of a net.Error.
func (silentError) Timeout() bool { return true }

func listen(ctx context.Context, silence time.Duration) *listener {
	l := &listener{silence: silence}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	l.timer = time.AfterFunc(silence, func() { l.cancel(silentError(silence)) })
	return l
}

// why is err, or that it was silent.
func (l *listener) why(err error) error {
	var silent silentError
	if errors.As(context.Cause(l.ctx), &silent) {
		return silent
	}
	return err
}

func (l *listener) end() {
	l.timer.Stop()
	l.cancel(nil)
}

// to is a body that may take as long as some of it comes.
func (l *listener) to(body io.ReadCloser) io.ReadCloser {
	l.timer.Stop()
	return heard{l, body}
}

type heard struct {
	*listener
	body io.ReadCloser
}

// Read implements io.Reader. What the reader does in between is none of the edge's silence.
func (h heard) Read(p []byte) (int, error) {
	h.timer.Reset(h.silence)
	defer h.timer.Stop()
	n, err := h.body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = h.why(err)
	}
	return n, err
}

// Close implements io.Closer.
func (h heard) Close() error {
	defer h.end()
	return h.body.Close()
}
