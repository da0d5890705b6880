package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/topo"
)

const (
	// patience is how much longer than planned an instrument may run.
	patience = 15 * time.Second
	// listenTime is how long a server may take until it listens.
	listenTime = 10 * time.Second
)

// runner runs instruments as processes of this program, which die with it.
type runner struct {
	limits Limits
	start  chan func()
	done   chan struct{} // closed when the thread ends

	mu      sync.Mutex
	closed  bool
	servers map[uint64]*process
	next    uint64
	all     map[*process]struct{}
}

// newRunner returns a runner whose processes get their death signal when its thread ends, which is
// when close has ended them, or with this process.
func newRunner(limits Limits) *runner {
	r := &runner{
		limits: limits, start: make(chan func()), done: make(chan struct{}),
		servers: map[uint64]*process{}, all: map[*process]struct{}{},
	}
	go func() {
		defer close(r.done)
		runtime.LockOSThread()
		for f := range r.start {
			f()
		}
	}()
	return r
}

// process is an instrument that runs.
type process struct {
	cmd         *exec.Cmd
	out, errors bytes.Buffer
	ended       chan struct{}
	err         error
	cancel      context.CancelFunc
}

// begin starts an instrument, if it is within the limits.
func (r *runner) begin(ctx context.Context, role measure.Role) (*process, error) {
	if role.Duration+role.Warmup > r.limits.Time {
		return nil, fmt.Errorf("%s of %s are longer than --max-time %s", role.Duration+role.Warmup, role.Instrument, r.limits.Time)
	}
	if r.limits.Rate > 0 && (role.Rate == 0 || role.Rate > r.limits.Rate) {
		role.Rate = r.limits.Rate
	}
	argv, err := role.Argv()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, role.Duration+role.Warmup+listenTime+patience)
	p := &process{cmd: exec.CommandContext(ctx, "/proc/self/exe", argv...), ended: make(chan struct{}), cancel: cancel}
	p.cmd.Env = append(os.Environ(), role.Env()...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errors
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.cmd.WaitDelay = time.Second
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		cancel()
		return nil, errors.New("the agent is about to exit")
	}
	if err := r.onThread(p.cmd); err != nil {
		cancel()
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	r.all[p] = struct{}{}
	go r.reap(p)
	return p, nil
}

// onThread starts a process that dies with the thread. r is not closed, and locked.
func (r *runner) onThread(cmd *exec.Cmd) error {
	started := make(chan error)
	r.start <- func() { started <- cmd.Start() }
	return <-started
}

// startWithUs starts a process that dies with the agent.
func (r *runner) startWithUs(cmd *exec.Cmd) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errors.New("the agent is about to exit")
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return r.onThread(cmd)
}

func (r *runner) reap(p *process) {
	err := p.cmd.Wait()
	if err != nil {
		p.err = fmt.Errorf("%s: %w: %s", p.cmd.Args[1], err, strings.TrimSpace(p.errors.String()))
	}
	p.cancel()
	r.mu.Lock()
	delete(r.all, p)
	r.mu.Unlock()
	close(p.ended)
}

func (p *process) kill() {
	p.cancel()
	<-p.ended
}

// report waits for the end and returns what was printed.
func (p *process) report() (report, error) {
	<-p.ended
	if p.err != nil {
		return report{}, p.err
	}
	return report{Report: bytes.TrimSpace(p.out.Bytes())}, nil
}

// serve starts a server and waits until it listens.
func (r *runner) serve(ctx context.Context, role measure.Role) (serving, error) {
	p, err := r.begin(ctx, role)
	if err != nil {
		return serving{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err = await.Within(ctx, listenTime, fmt.Sprintf("a listener on %s port %d", role.Network(), role.Port), func() error {
		select {
		case <-p.ended:
			cancel()
			return errors.Join(p.err, errors.New("the server has ended"))
		default:
			return topo.Listening(role.Network(), role.Port)
		}
	})
	if err != nil {
		p.kill()
		return serving{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	r.servers[r.next] = p
	return serving{r.next}, nil
}

// run runs a client to its end.
func (r *runner) run(ctx context.Context, role measure.Role) (report, error) {
	p, err := r.begin(ctx, role)
	if err != nil {
		return report{}, err
	}
	return p.report()
}

func (r *runner) server(id uint64) (*process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.servers[id]
	if !ok {
		return nil, fmt.Errorf("there is no server %d", id)
	}
	delete(r.servers, id)
	return p, nil
}

// collect waits for a server's end.
func (r *runner) collect(id uint64) (report, error) {
	p, err := r.server(id)
	if err != nil {
		return report{}, err
	}
	return p.report()
}

// end kills a server.
func (r *runner) end(id uint64) error {
	p, err := r.server(id)
	if err != nil {
		return err
	}
	p.kill()
	return nil
}

// close ends all processes. It may be called again.
func (r *runner) close() {
	r.mu.Lock()
	first := !r.closed
	r.closed = true
	var all []*process
	for p := range r.all {
		all = append(all, p)
	}
	r.mu.Unlock()
	for _, p := range all {
		p.kill()
	}
	if first {
		close(r.start)
	}
	<-r.done
}
