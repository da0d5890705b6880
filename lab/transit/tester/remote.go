package tester

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/losses"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/neighbour"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/lab/transit"
)

// remote are ports of another host. The session is its own.
type remote struct {
	session *agent.Session
	links   []topo.Port
}

// askTime bounds what an agent answers at once.
const askTime = 20 * time.Second

// OpenAt reads ports of an agent's host. The session is closed with them, or with an error.
func OpenAt(ctx context.Context, s *agent.Session, names []Name) (Ports, error) {
	r := &remote{session: s}
	var err error
	if r.links, err = ask[[]topo.Port](ctx, s, askOpen, names); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return r, nil
}

// Host is what the agent said at its beginning.
func (r *remote) Host() Host {
	h := r.session.Hello
	return Host{Cores: h.Usable, Kernel: h.Kernel, Boot: h.Machine}
}

// ask asks the agent's tester.
func ask[A any](ctx context.Context, s *agent.Session, what string, body any) (answer A, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askTime, fmt.Errorf("%s: no answer to %q in %s", s, what, askTime))
	defer cancel()
	err = s.Ask(ctx, ServiceName, what, body, &answer)
	return answer, err
}

// do is ask where the answer has nothing in it.
func (r *remote) do(ctx context.Context, what string, body any) error {
	_, err := ask[struct{}](ctx, r.session, what, body)
	return err
}

func (r *remote) Links() []topo.Port { return r.links }
func (r *remote) String() string     { return r.session.String() }
func (r *remote) Close() error       { return r.session.Close() }

func (r *remote) Answer(ctx context.Context, by []neighbour.Options) error {
	return r.do(ctx, askAnswer, by)
}

func (r *remote) Resolve(ctx context.Context, q Question) (net.HardwareAddr, error) {
	limit := askTime / 2
	if end, ok := ctx.Deadline(); ok {
		limit = time.Until(end)
	}
	// The agent says why, so it is asked for longer than it looks.
	return ask[net.HardwareAddr](context.WithoutCancel(ctx), r.session, askResolve, resolveRequest{Question: q, Limit: limit})
}

func (r *remote) Announce(ctx context.Context, port int, addr netip.Addr) error {
	return r.do(ctx, askAnnounce, Question{Port: port, Addr: addr})
}

func (r *remote) Answered(ctx context.Context) (uint64, error) {
	return ask[uint64](ctx, r.session, askAnswered, nil)
}

func (r *remote) Overflows(ctx context.Context) (losses.Counts, error) {
	counts, err := ask[losses.Counts](ctx, r.session, askOverflows, nil)
	named := losses.Counts{}
	for port, n := range counts {
		named[port+" at "+r.String()] = n
	}
	return named, err
}

func (r *remote) CPU(ctx context.Context) (measure.CPUClock, error) {
	text, err := ask[[]byte](ctx, r.session, askCPU, nil)
	if err != nil {
		return nil, err
	}
	return measure.ParseCPU(text)
}

func (r *remote) Sender(o SenderOptions) (transit.Sender, error) {
	a, err := ask[handle](context.Background(), r.session, askSender, o)
	if err != nil {
		return nil, err
	}
	return &remoteSender{remoteHandle{r, a.ID}, a.Next}, nil
}

func (r *remote) Sink(at []int, o gen.SinkOptions) (transit.Sink, error) {
	a, err := ask[handle](context.Background(), r.session, askSink, sinkRequest{At: at, Options: o})
	if err != nil {
		return nil, err
	}
	return &remoteSink{remoteHandle{r, a.ID}}, nil
}

func (r *remote) Reflector(at []int, o gen.ReflectorOptions) (stop func() error, err error) {
	a, err := ask[handle](context.Background(), r.session, askReflector, reflectorRequest{At: at, Options: o})
	if err != nil {
		return nil, err
	}
	return (&remoteHandle{r, a.ID}).Close, nil
}

// remoteHandle is something that was opened there.
type remoteHandle struct {
	of *remote
	id int
}

// Close closes it there.
func (h *remoteHandle) Close() error {
	return h.of.do(context.Background(), askClose, handle{ID: h.id})
}

// remoteSink is a sink there.
type remoteSink struct{ remoteHandle }

// Reset is gen.Sink's.
func (s *remoteSink) Reset(run uint16) error {
	return s.of.do(context.Background(), askReset, handle{ID: s.id, Next: run})
}

// Read is gen.Sink's. Latencies are by the clock of that host.
func (s *remoteSink) Read() (gen.Report, error) {
	a, err := ask[readAnswer](context.Background(), s.of.session, askRead, handle{ID: s.id})
	a.Report.Latency.SetHistogram(a.Histogram)
	return a.Report, err
}

// remoteSender is a generator there.
type remoteSender struct {
	remoteHandle
	next uint16
}

// Next is the number of the next run.
func (s *remoteSender) Next() uint16 { return s.next }

// Run has it send. When ctx ends, so does the load.
func (s *remoteSender) Run(ctx context.Context, load gen.Load) (gen.Sent, error) {
	stop := context.AfterFunc(ctx, func() {
		_ = s.of.do(context.Background(), askStop, handle{ID: s.id}) // Close ends it too
	})
	defer stop()
	var a runAnswer
	if err := s.of.session.Ask(ctx, ServiceName, askRun, runRequest{ID: s.id, Load: load}, &a); err != nil {
		return gen.Sent{}, err
	}
	s.next = a.Next
	return a.Sent, nil
}
