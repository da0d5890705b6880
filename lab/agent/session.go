package agent

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/printable"
	"github.com/selvage/selvage/lab/measure"
)

// Session is the controller's end of a connection to an agent.
type Session struct {
	// Hello is who answers.
	Hello Hello

	name    string // for errors
	process Process
	wire    wire
	stop    chan struct{} // ends the heartbeats
	ready   chan struct{} // closed with the agent's first message

	mu       sync.Mutex
	next     uint64
	waiting  map[uint64]chan message
	err      error         // why the connection has ended
	known    bool          // whether a request has returned that
	switches bool          // whether the agent has commands to run at its end
	ended    chan struct{} // closed then

	closing sync.Once
	closed  error
}

// Process is what connects to an agent: ssh, or the agent itself.
type Process interface {
	// Kill ends it at once, and may be called again.
	Kill()
	// Wait ends its input, waits for its end and says why it failed. It may be called again.
	Wait() error
	// Said is the end of what it wrote to standard error.
	Said() string
}

// callTime bounds requests that the agent answers at once.
const callTime = 20 * time.Second

// NewSession is a connection by a process whose standard output and input are given. The agent has
// to be ready before ctx ends. A session that is returned has to be closed.
func NewSession(ctx context.Context, name string, p Process, out *bufio.Reader, in io.Writer) (*Session, error) {
	s := &Session{
		name: name, process: p, wire: wire{out: in}, stop: make(chan struct{}), ready: make(chan struct{}),
		waiting: map[uint64]chan message{}, ended: make(chan struct{}),
	}
	go s.read(out)
	select {
	case <-s.ready:
	case <-s.ended:
		return nil, s.Err()
	case <-ctx.Done():
		p.Kill()
		<-s.ended
		return nil, errors.Join(fmt.Errorf("%s: %w", name, context.Cause(ctx)), s.Err())
	}
	go s.wire.keepAlive(s.stop)
	if err := s.call(ctx, opHello, nil, &s.Hello); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// read hands over answers until the connection ends.
func (s *Session) read(out *bufio.Reader) {
	lost := sync.OnceValue(func() error { s.process.Kill(); return errSilent })
	silent := make(chan struct{})
	// Before that it may be silent for long: sudo takes seconds to refuse a password.
	_, came, err := Await(out, readyMark)
	if errors.Is(err, io.EOF) {
		err = errEnded
	} else if err != nil {
		s.process.Kill() // it may print for ever
	}
	if err == nil {
		dog := newWatchdog(func() { _ = lost(); close(silent) })
		close(s.ready)
		err = receive(out, dog, s.deliver)
		dog.stop()
	}
	select {
	case <-silent:
		err = lost()
	default:
	}
	failed := s.process.Wait()
	if said := s.process.Said(); said != "" {
		err = errors.Join(err, errors.New(said))
	} else if failed != nil && (err == nil || errors.Is(err, errEnded)) {
		err = failed
	}
	err = cmp.Or(err, errEnded)
	s.mu.Lock()
	s.err = fmt.Errorf("%s: connection lost: %w%s", s.name, err, Printed(came))
	s.mu.Unlock()
	close(s.ended)
}

// deliver hands an answer to who waits for it.
func (s *Session) deliver(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer, ok := s.waiting[m.ID]; ok {
		answer <- m // there is room for one
		delete(s.waiting, m.ID)
	}
}

// Err is why the connection has ended, or nil.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// tell is Err for who asked for something.
func (s *Session) tell() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = true
	return s.err
}

// String names the place.
func (s *Session) String() string { return s.name }

// call asks and reads the answer's body into answer, unless that is nil.
func (s *Session) call(ctx context.Context, op string, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	got := make(chan message, 1)
	s.mu.Lock()
	s.next++
	id := s.next
	s.waiting[id] = got
	s.mu.Unlock()
	if err := s.wire.send(message{ID: id, Op: op, Body: data}); err != nil {
		select { // it is known better in a moment why
		case <-s.ended:
			return s.tell()
		case <-ctx.Done():
			return fmt.Errorf("%s: %s: %w", s.name, op, err)
		}
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case m := <-got:
		return s.take(op, m, answer)
	case <-s.ended:
	}
	select { // the agent may have answered, and then ended
	case m := <-got:
		return s.take(op, m, answer)
	default:
		return s.tell()
	}
}

// take reads an answer's body into answer, unless that is nil.
func (s *Session) take(op string, m message, answer any) error {
	if m.Error != "" {
		return fmt.Errorf("%s: %s", s.name, printable.Line(m.Error))
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(printable.JSON(m.Body), answer); err != nil {
		return fmt.Errorf("%s: answer to %s: %w", s.name, op, err)
	}
	return nil
}

// Server is an instrument's server that runs at a place.
type Server struct {
	session *Session
	id      serving
}

// Serve starts a server and returns when it listens. Its end is Collect or End.
func (s *Session) Serve(ctx context.Context, role measure.Role) (*Server, error) {
	role.Server = true
	server := &Server{session: s}
	if err := s.call(ctx, opServe, runRequest{role}, &server.id); err != nil {
		return nil, err
	}
	return server, nil
}

// Collect waits for the server's end and returns what it printed.
func (s *Server) Collect(ctx context.Context) (json.RawMessage, error) {
	var r report
	err := s.session.call(ctx, opCollect, s.id, &r)
	return r.Report, err
}

// End kills the server.
func (s *Server) End(ctx context.Context) error { return s.session.call(ctx, opEnd, s.id, nil) }

// Run runs a client to its end and returns what it printed.
func (s *Session) Run(ctx context.Context, role measure.Role) (json.RawMessage, error) {
	role.Server = false
	var r report
	err := s.call(ctx, opRun, runRequest{role}, &r)
	return r.Report, err
}

// Watch says what the place did from now on for that long.
func (s *Session) Watch(ctx context.Context, d time.Duration) (w Watched, err error) {
	if err = s.call(ctx, opWatch, watchRequest{d}, &w); err == nil {
		err = w.judge()
	}
	return w, err
}

// Adapter says what of an interface can be changed, and how it is.
func (s *Session) Adapter(ctx context.Context, iface string) (a Adapter, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	err = s.call(ctx, opAdapter, iface, &a)
	return a, err
}

// Set makes changes until the session ends, all or none, and returns them with what was before;
// a dry run only says so.
func (s *Session) Set(ctx context.Context, changes []Change, dryRun bool) (lines []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	err = s.call(ctx, opSet, setRequest{Changes: changes, DryRun: dryRun}, &lines)
	return lines, err
}

// Close has the agent undo and remove everything and exit, and waits for that. It may be called
// again. A connection that was lost is an error, if no request has returned that.
func (s *Session) Close() error {
	s.closing.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.leaveTime())
		defer cancel()
		s.mu.Lock()
		known := s.known
		s.mu.Unlock()
		if s.closed = s.call(ctx, opBye, nil, nil); known {
			s.closed = nil
		}
		select {
		case <-s.ended: // the shell around the agent has removed its directory
		case <-ctx.Done():
			s.process.Kill()
			<-s.ended
			s.closed = errors.Join(s.closed, fmt.Errorf("%s: the agent did not exit in %s", s.name, s.leaveTime()))
		}
		close(s.stop)
	})
	return s.closed
}
