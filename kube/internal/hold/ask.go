package hold

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Ask asks the agent until ctx ends. An agent that is not there is an error at once.
func Ask(ctx context.Context, socket string, a Attachment) (answer Answer, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return answer, fmt.Errorf("ask the agent: %w", err)
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return answer, fmt.Errorf("ask the agent: %w", err)
		}
	}
	if err := json.NewEncoder(conn).Encode(a); err != nil {
		return answer, fmt.Errorf("ask the agent: %w", err)
	}
	if err := json.NewDecoder(io.LimitReader(conn, MostBytes)).Decode(&answer); err != nil {
		return answer, fmt.Errorf("answer of the agent: %w", err)
	}
	return answer, nil
}

// atOnce is how many questions are answered at a time, all that a node may hold; others wait in the socket's queue, no longer than
// Patience.
const atOnce = Most

// Serve answers questions until ctx ends. Only root may ask.
func Serve(ctx context.Context, socket string, answer func(context.Context, Attachment) Answer) error {
	l, err := listen(socket)
	if err != nil {
		return fmt.Errorf("socket of the CNI plugin: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	slots := make(chan struct{}, atOnce)
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ECONNABORTED):
			<-time.After(50 * time.Millisecond)
			continue
		case err != nil:
			return fmt.Errorf("socket of the CNI plugin: %w", err)
		}
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			one(ctx, conn, answer)
		})
	}
}

// listen takes the place of an agent that is gone.
func listen(socket string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		return nil, err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// answerMost is how long an answer takes, so that it comes before the plugin ceases to wait.
const answerMost = Patience - 100*time.Millisecond

// one answers one question, unless who asked is gone: in a storm of questions others would wait for answers that nobody reads.
func one(ctx context.Context, conn net.Conn, answer func(context.Context, Attachment) Answer) {
	var reading sync.WaitGroup
	defer reading.Wait()
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, answerMost)
	defer cancel()
	if conn.SetDeadline(time.Now().Add(Patience)) != nil {
		return
	}
	var a Attachment
	err := json.NewDecoder(io.LimitReader(conn, MostBytes)).Decode(&a)
	if err == nil {
		err = a.Check()
	}
	if err != nil {
		_ = json.NewEncoder(conn).Encode(Answer{Failed, err.Error()}) // who asks such a thing may be gone
		return
	}
	reading.Go(func() {
		_, _ = io.Copy(io.Discard, conn) // until its end
		cancel()
	})
	_ = json.NewEncoder(conn).Encode(answer(ctx, a)) // the plugin holds the pod itself when it gets none
}
