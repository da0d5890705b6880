package tester

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/neighbour"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/lab/transit"
)

// ServiceName is this one's among those of an agent.
const ServiceName = "tester"

// What the service is asked.
const (
	askOpen      = "open"
	askAnswer    = "answer"
	askResolve   = "resolve"
	askAnnounce  = "announce"
	askAnswered  = "answered"
	askOverflows = "overflows"
	askCPU       = "cpu"
	askSender    = "sender"
	askSink      = "sink"
	askReflector = "reflector"
	askRun       = "run"
	askStop      = "stop"
	askReset     = "reset"
	askRead      = "read"
	askClose     = "close"
)

type resolveRequest struct {
	Question
	Limit time.Duration `json:"limit"`
}

type sinkRequest struct {
	At      []int           `json:"at"`
	Options gen.SinkOptions `json:"options"`
}

type reflectorRequest struct {
	At      []int                `json:"at"`
	Options gen.ReflectorOptions `json:"options"`
}

// handle is something that was opened, with the number of a run.
type handle struct {
	ID   int    `json:"id"`
	Next uint16 `json:"next,omitempty"`
}

type runRequest struct {
	ID   int      `json:"id"`
	Load gen.Load `json:"load"`
}

// readAnswer is what a sink has counted, with what a report keeps to itself.
type readAnswer struct {
	Report    gen.Report `json:"report"`
	Histogram []uint64   `json:"histogram,omitempty"`
}

type runAnswer struct {
	Sent gen.Sent `json:"sent"`
	Next uint16   `json:"next"`
}

// service is the ports of an agent and what is at them.
type service struct {
	limits agent.Limits

	mu     sync.Mutex
	ports  *local
	opened map[int]*opened
	next   int
	closed bool
}

// opened is something at the ports. One thing is done with it at a time.
type opened struct {
	mu     sync.Mutex
	sender transit.Sender
	bits   float64 // that a frame of the sender's takes of the wire, on average
	sink   transit.Sink
	close  func() error
	// stop ends the run that there is; it has a lock of its own.
	stopping sync.Mutex
	stop     context.CancelFunc
}

// Service is that of an agent: no load is longer or faster than its limits.
func Service(l agent.Limits) agent.Service {
	return &service{limits: l, opened: map[int]*opened{}}
}

// Answer does what a remote asks for.
func (s *service) Answer(ctx context.Context, what string, body json.RawMessage) (any, error) {
	if what == askOpen {
		return agent.With(what, body, s.open)
	}
	s.mu.Lock()
	p := s.ports
	s.mu.Unlock()
	if p == nil {
		return nil, errors.New("no ports have been opened")
	}
	switch what {
	case askAnswer:
		return agent.With(what, body, func(by []neighbour.Options) (struct{}, error) { return struct{}{}, p.Answer(ctx, by) })
	case askResolve:
		return agent.With(what, body, func(q resolveRequest) (net.HardwareAddr, error) {
			ctx, cancel := context.WithTimeout(ctx, q.Limit)
			defer cancel()
			return p.Resolve(ctx, q.Question)
		})
	case askAnnounce:
		return agent.With(what, body, func(q Question) (struct{}, error) { return struct{}{}, p.Announce(ctx, q.Port, q.Addr) })
	case askAnswered:
		return p.Answered(ctx)
	case askOverflows:
		return p.Overflows(ctx)
	case askCPU:
		return os.ReadFile("/proc/stat")
	}
	return s.instrument(ctx, p, what, body)
}

// instrument opens instruments and has them work.
func (s *service) instrument(ctx context.Context, p *local, what string, body json.RawMessage) (any, error) {
	switch what {
	case askSender:
		return agent.With(what, body, func(o SenderOptions) (handle, error) {
			sender, err := p.Sender(o)
			if err != nil {
				return handle{}, err
			}
			bits := 8 * (o.Stream.MeanFrame(nil) + transit.Framing)
			return s.keep(&opened{sender: sender, bits: bits, close: sender.Close}, sender.Next())
		})
	case askSink:
		return agent.With(what, body, func(q sinkRequest) (handle, error) {
			sink, err := p.Sink(q.At, q.Options)
			if err != nil {
				return handle{}, err
			}
			return s.keep(&opened{sink: sink, close: sink.Close}, 0)
		})
	case askReflector:
		return agent.With(what, body, func(q reflectorRequest) (handle, error) {
			stop, err := p.Reflector(q.At, q.Options)
			if err != nil {
				return handle{}, err
			}
			return s.keep(&opened{close: stop}, 0)
		})
	case askRun:
		return agent.With(what, body, func(q runRequest) (runAnswer, error) { return s.run(ctx, q) })
	case askReset:
		return agent.With(what, body, s.reset)
	case askRead:
		return agent.With(what, body, s.read)
	case askStop:
		return agent.With(what, body, s.stop)
	case askClose:
		return agent.With(what, body, s.drop)
	}
	return nil, fmt.Errorf("a tester knows no request %q", what)
}

func (s *service) open(names []Name) ([]topo.Port, error) {
	p, err := open(names)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ports != nil || s.closed {
		return nil, errors.New("a session has the ports of one side")
	}
	s.ports = p
	return p.links, nil
}

// mostOpened bounds what a controller can have this program keep.
const mostOpened = 64

// keep gives what was opened a number, or closes it.
func (s *service) keep(o *opened, next uint16) (handle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.opened) >= mostOpened {
		return handle{}, errors.Join(fmt.Errorf("%d instruments are open, or the session ends", len(s.opened)), o.close())
	}
	s.next++
	s.opened[s.next] = o
	return handle{ID: s.next, Next: next}, nil
}

func (s *service) find(id int) (*opened, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.opened[id]; ok {
		return o, nil
	}
	return nil, fmt.Errorf("there is no instrument %d", id)
}

func (s *service) run(ctx context.Context, q runRequest) (a runAnswer, err error) {
	o, err := s.find(q.ID)
	if err != nil {
		return a, err
	}
	if o.sender == nil {
		return a, fmt.Errorf("instrument %d is no generator", q.ID)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, s.limits.Time, fmt.Errorf("it sent for more than %s, the longest that was agreed to", s.limits.Time))
	defer cancel()
	o.stopping.Lock()
	o.stop = cancel
	o.stopping.Unlock()
	a.Sent, err = o.sender.Run(ctx, s.within(q.Load, o.bits))
	a.Next = o.sender.Next()
	return a, err
}

// within is a load at the most that was agreed to.
func (s *service) within(load gen.Load, bits float64) gen.Load {
	if s.limits.Rate == 0 {
		return load
	}
	if most := float64(s.limits.Rate) / bits; load.Rate == 0 || load.Rate > most {
		load.Rate = most
	}
	return load
}

func (s *service) sinkOf(h handle) (*opened, error) {
	o, err := s.find(h.ID)
	if err == nil && o.sink == nil {
		err = fmt.Errorf("instrument %d is no sink", h.ID)
	}
	return o, err
}

func (s *service) reset(h handle) (struct{}, error) {
	o, err := s.sinkOf(h)
	if err != nil {
		return struct{}{}, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return struct{}{}, o.sink.Reset(h.Next)
}

func (s *service) read(h handle) (a readAnswer, err error) {
	o, err := s.sinkOf(h)
	if err != nil {
		return a, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	a.Report, err = o.sink.Read()
	a.Histogram = a.Report.Latency.Histogram()
	return a, err
}

// stop ends the run of a generator, if there is one.
func (s *service) stop(h handle) (struct{}, error) {
	o, err := s.find(h.ID)
	if err == nil {
		o.halt()
	}
	return struct{}{}, err
}

func (o *opened) halt() {
	o.stopping.Lock()
	defer o.stopping.Unlock()
	if o.stop != nil {
		o.stop()
	}
}

// end closes it when its run has ended.
func (o *opened) end() error {
	o.halt()
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.close()
}

// drop closes one instrument.
func (s *service) drop(h handle) (struct{}, error) {
	o, err := s.find(h.ID)
	if err != nil {
		return struct{}{}, err
	}
	s.mu.Lock()
	delete(s.opened, h.ID)
	s.mu.Unlock()
	return struct{}{}, o.end()
}

// Close ends all.
func (s *service) Close() error {
	s.mu.Lock()
	all, ports := s.opened, s.ports
	s.opened, s.ports, s.closed = map[int]*opened{}, nil, true
	var ids []int
	for id := range all {
		ids = append(ids, id)
	}
	s.mu.Unlock()
	slices.Sort(ids)
	var errs []error
	for _, id := range ids {
		errs = append(errs, all[id].end())
	}
	if ports != nil {
		errs = append(errs, ports.Close())
	}
	return errors.Join(errs...)
}
