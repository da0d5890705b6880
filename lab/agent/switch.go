package agent

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/selvage/selvage/internal/tail"
)

// Switch turns something of a machine on and off, by commands of the user for sh(1). Off has to
// succeed also where it is off: it is the undo.
type Switch struct {
	On  string `json:"on"`
	Off string `json:"off"`
}

// switchRequest asks for one of the commands.
type switchRequest struct {
	Switch
	Turn bool `json:"turn"` // on
}

// commandTime is the longest that a command may take.
const commandTime = time.Minute

// Turn turns s on or off, and says how long the command took. The agent turns it off when it
// ends, however it ends, and so does its shell. A command that fails is an error.
func (s *Session) Turn(ctx context.Context, w Switch, on bool) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime+callTime)
	defer cancel()
	s.mu.Lock()
	s.switches = true
	s.mu.Unlock()
	err = s.call(ctx, opSwitch, switchRequest{Switch: w, Turn: on}, &took)
	return took, err
}

// leaveTime is how long an agent may take to undo everything.
func (s *Session) leaveTime() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.switches {
		return callTime + commandTime
	}
	return callTime
}

// turn runs one of the commands, after noting the one that undoes it.
func (a *agent) turn(q switchRequest) (took time.Duration, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.commands.Err() != nil {
		return 0, context.Cause(a.commands)
	}
	if q.On == "" || q.Off == "" {
		return 0, errors.New("a switch has two commands")
	}
	text := q.Off
	if q.Turn {
		text = q.On
		if err := a.ledger.note(undo{Off: q.Off}); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	err = runCommand(a.commands, a.runner.startWithUs, text)
	return time.Since(began), err
}

// runCommand runs a command of the user, which has no input.
func runCommand(ctx context.Context, start func(*exec.Cmd) error, text string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, commandTime, fmt.Errorf("it has not ended in %s", commandTime))
	defer cancel()
	var printed tail.Buffer
	cmd := exec.CommandContext(ctx, "sh", "-c", text)
	cmd.Stdout, cmd.Stderr = &printed, &printed
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if errors.Is(err, exec.ErrWaitDelay) { // what it left behind has its output
		err = nil
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w%s", text, err, Printed(printed.String()))
	}
	return nil
}
