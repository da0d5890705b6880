// Package agent is the far end of a measurement between places: it runs instruments, reads
// counters and changes settings where it was started, as its controller asks over a pipe.
//
// Its one invariant: it leaves a machine as it was. Every change is written to a ledger on disk
// before it is made; when the controller is silent for five seconds, or says so, the agent ends
// what it runs, undoes its changes, removes its files and exits. What it starts dies with it.
// It has no listening socket: only a server of an instrument has one, at the port that it was
// given. Do not use it for what takes a shell.
package agent

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/lab/cores"
)

// Limits are what an agent does not exceed, whatever it is asked.
type Limits struct {
	Rate int64         // bits a second that an instrument sends; 0 is no limit
	Time time.Duration // of one instrument
}

// agent serves one controller.
type agent struct {
	wire
	*Command
	limits  Limits
	version string
	hello   Hello
	runner  *runner
	serves  services
	ledger  ledger
	mu      sync.Mutex // of ledger
	ctx     context.Context
	end     context.CancelCauseFunc
	// commands ends the user's commands, before they are undone.
	commands    context.Context
	endCommands context.CancelCauseFunc
}

// Causes of an agent's end.
var (
	errBye   = errors.New("the controller said so")
	errEnded = errors.New("the connection ended")
)

// serve answers requests until the controller is gone or says so.
func (a *agent) serve(ctx context.Context, in io.Reader) error {
	signal.Ignore(syscall.SIGPIPE) // else a write to a pipe that is gone is the end, without an undo
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	a.ctx, a.end = context.WithCancelCause(ctx)
	defer a.end(nil)
	a.commands, a.endCommands = context.WithCancelCause(a.ctx)
	defer a.endCommands(nil)
	self, err := thisOwner()
	if err != nil {
		return err
	}
	if err := writeDurably(filepath.Join(a.Dir, ownerFile), self); err != nil {
		return err
	}
	a.ledger.dir = a.Dir
	if a.hello, err = a.describe(); err != nil {
		return errors.Join(err, a.leave())
	}
	a.runner = newRunner(a.limits)
	a.serves = services{limits: a.limits, known: a.Services}
	stopBeats := make(chan struct{})
	go a.keepAlive(stopBeats)
	dog := newWatchdog(func() { a.end(errSilent) })
	go func() { // until the process exits: a read of standard input cannot be interrupted
		err := receive(bufio.NewReader(in), dog, a.handle)
		a.end(errors.Join(errEnded, err))
	}()
	err = a.send(message{Op: opReady})
	if err == nil {
		<-a.ctx.Done()
	}
	dog.stop()
	close(stopBeats)
	a.end(nil)
	a.runner.close()
	err = errors.Join(err, a.serves.close(), a.leave())
	if cause := context.Cause(a.ctx); !errors.Is(cause, errBye) {
		return errors.Join(cause, err)
	}
	return err
}

// leave undoes all changes and removes the agent's files.
func (a *agent) leave() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.ledger.undo(); err != nil {
		return err
	}
	return os.RemoveAll(a.Dir)
}

// handle answers a request, beside others.
func (a *agent) handle(m message) {
	received := time.Now()
	go func() {
		answer := message{ID: m.ID}
		body, err := a.answer(m, received)
		if err == nil {
			answer.Body, err = json.Marshal(body)
		}
		if err != nil {
			answer.Error = err.Error()
		}
		_ = a.send(answer) // where it cannot be sent, the connection's end says so
		if m.Op == opBye {
			a.end(errBye)
		}
	}()
}

// answer does what a request asks for.
func (a *agent) answer(m message, received time.Time) (any, error) {
	switch m.Op {
	case opHello:
		return a.hello, nil
	case opClock:
		return clockReading{Received: received.UnixNano(), Sent: time.Now().UnixNano()}, nil
	case opServe:
		return with(m, func(r runRequest) (serving, error) { return a.runner.serve(a.ctx, r.Role) })
	case opCollect:
		return with(m, func(s serving) (report, error) { return a.runner.collect(s.ID) })
	case opEnd:
		return with(m, func(s serving) (struct{}, error) { return struct{}{}, a.runner.end(s.ID) })
	case opRun:
		return with(m, func(r runRequest) (report, error) { return a.runner.run(a.ctx, r.Role) })
	case opWatch:
		return with(m, func(w watchRequest) (Watched, error) { return a.watch(w.Duration) })
	case opProfile:
		return with(m, a.profile)
	case opSet:
		return with(m, a.set)
	case opSwitch:
		return with(m, a.turn)
	case opAsk:
		return with(m, func(q question) (any, error) { return a.serves.answer(a.ctx, q) })
	case opBye:
		a.endCommands(errBye)
		a.runner.close()
		err := a.serves.close()
		a.mu.Lock()
		defer a.mu.Unlock()
		return struct{}{}, errors.Join(err, a.ledger.undo())
	}
	return a.look(m)
}

// look answers requests that only read.
func (a *agent) look(m message) (any, error) {
	switch m.Op {
	case opExamine:
		return a.examine()
	case opEvidence:
		return readEvidence(a.ctx), nil
	case opRoute:
		return with(m, route)
	case opAdapter:
		return with(m, adapterOf)
	}
	return nil, fmt.Errorf("this agent knows no request %q", m.Op)
}

// with reads the body of a request.
func with[Q, A any](m message, do func(Q) (A, error)) (any, error) { return With(m.Op, m.Body, do) }

func (a *agent) watch(d time.Duration) (Watched, error) {
	if d > a.limits.Time {
		return Watched{}, fmt.Errorf("%s is longer than --max-time %s", d, a.limits.Time)
	}
	return watch(a.ctx, d)
}

// set makes changes, all or none, and returns them with what was before.
func (a *agent) set(q setRequest) (lines []string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.hello.Root && !q.DryRun {
		return nil, errors.New("changes need root, which this user is not: log in as root, or use --sudo yes or pass")
	}
	for _, c := range q.Changes {
		if err := c.allowed(a.hello.Carriers); err != nil {
			return nil, err
		}
		u, err := c.look()
		if err != nil {
			return nil, err
		}
		lines = append(lines, u.String())
	}
	if q.DryRun {
		return lines, nil
	}
	if a.ctx.Err() != nil {
		return nil, context.Cause(a.ctx)
	}
	for _, c := range q.Changes {
		if _, err := a.ledger.change(c); err != nil {
			return nil, errors.Join(err, a.ledger.undo())
		}
	}
	return lines, nil
}

// describe says who this is, after undoing what killed agents left.
func (a *agent) describe() (h Hello, err error) {
	h = Hello{Version: a.version, Arch: runtime.GOARCH, Root: os.Geteuid() == 0, Cores: cores.Count(), Usable: cores.Usable(), Dir: a.Dir}
	if h.Program, err = hashOf("/proc/self/exe"); err != nil {
		return h, err
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return h, fmt.Errorf("kernel version: %w", err)
	}
	if h.Machine, err = BootID(); err != nil {
		return h, err
	}
	h.Kernel, h.Name = unix.ByteSliceToString(name.Release[:]), unix.ByteSliceToString(name.Nodename[:])
	if h.Interfaces, err = interfaces(); err != nil {
		return h, err
	}
	if h.Carriers, err = carriers(a.SSH); err != nil {
		return h, err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/"
	}
	roots := map[string]bool{filepath.Dir(a.Dir): true, "/tmp": true, "/var/tmp": true, home: true}
	for root := range roots {
		restored, err := RestoreDead(root)
		h.Restored = append(h.Restored, restored...)
		if err != nil {
			h.NotRestored = err.Error()
		}
	}
	return h, nil
}

// BootID is of the machine, until its next start.
func BootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}

func interfaces() ([]Interface, error) {
	devices, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var all []Interface
	for _, dev := range devices {
		i := Interface{Name: dev.Name, MTU: dev.MTU, Up: dev.Flags&net.FlagUp != 0}
		addrs, err := dev.Addrs()
		if err != nil {
			continue // it has just gone
		}
		for _, addr := range addrs {
			i.Addrs = append(i.Addrs, addr.String())
		}
		all = append(all, i)
	}
	return all, nil
}

// hashOf is the SHA-256 of a file.
func hashOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
