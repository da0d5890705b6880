package experiments

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/printable"
	"github.com/selvage/selvage/lab/experiment"
)

// Shell is the command line of two hosts to play with.
type Shell struct {
	Command string `short:"c" placeholder:"COMMAND" help:"Run one command instead of an interactive shell, and end with its exit status. A script on standard input does the same."`
}

// Run builds the hosts, runs a shell among them, and removes everything when that ends.
func (c *Shell) Run(ctx context.Context, console *experiment.Console) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces and BPF need root: run it with sudo")
	}
	ctx, stop := experiment.WithHangup(ctx)
	defer stop()
	experiment.RestoreDead(ctx, console.Err)
	w, err := newShellWorld(ctx)
	if w != nil {
		defer func() { err = experiment.Removed(ctx, err, w.close()) }()
	}
	if err != nil {
		return err
	}
	interactive := c.Command == "" && experiment.Terminal(os.Stdin)
	if interactive {
		fmt.Fprintf(console.Err, "\n%s\n", w.readme)
	}
	return c.shell(ctx, w, console, interactive)
}

// shellGrace is how long a shell may take to end when it has to.
const shellGrace = 2 * time.Second

// exitStatus is how the user's shell ended. It has no text, since the user knows.
type exitStatus int

// Error is empty.
func (exitStatus) Error() string { return "" }

// ExitCode is that of the shell.
func (e exitStatus) ExitCode() int { return int(e) }

// shell runs the user's shell until it ends or ctx does.
func (c *Shell) shell(ctx context.Context, w *shellWorld, console *experiment.Console, interactive bool) error {
	program := os.Getenv("SHELL")
	if program == "" {
		program = "/bin/sh"
	}
	var args []string
	switch {
	case c.Command != "":
		args = []string{"-c", c.Command}
	case interactive && filepath.Base(program) == "bash":
		args = []string{"--rcfile", filepath.Join(w.lab.Dir, "bashrc"), "-i"}
	case interactive:
		args = []string{"-i"}
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = w.lab.Dir, append(os.Environ(), w.environment()...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, printable.Raw(console.Out), printable.Raw(console.Err)
	// Should this process be killed, its edges are gone, and a shell among them is of no use.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGHUP}
	end := syscall.SIGTERM
	switch onTerminal := experiment.Terminal(os.Stdin); {
	case interactive:
		end = syscall.SIGHUP // interactive shells ignore SIGTERM
		cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty = true, int(os.Stdin.Fd())
		defer takeTerminal(os.Stdin)
	case !onTerminal: // else Ctrl-C and Ctrl-Z have to reach the command and this process alike
		cmd.SysProcAttr.Setpgid = true
	}
	cmd.Cancel = func() error { return signalShell(cmd, end) }
	cmd.WaitDelay = shellGrace
	runtime.LockOSThread() // Pdeathsig is of the thread
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	return shellError(err, program)
}

// signalShell signals the shell, and its process group where that is its own.
func signalShell(cmd *exec.Cmd, s syscall.Signal) error {
	pid := cmd.Process.Pid
	if cmd.SysProcAttr.Setpgid || cmd.SysProcAttr.Foreground {
		pid = -pid
	}
	return syscall.Kill(pid, s)
}

// shellError is how a shell ended, nil when well.
func shellError(err error, program string) error {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &exit):
		return fmt.Errorf("shell %s: %w", program, err)
	}
	if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return exitStatus(128 + int(s.Signal())) // as shells say it
	}
	return exitStatus(exit.ExitCode())
}

// takeTerminal makes the group of this process the terminal's foreground again, as a shell
// that was killed has not.
func takeTerminal(tty *os.File) {
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(int(tty.Fd()), unix.TIOCSPGRP, unix.Getpgrp()) // a terminal that is gone needs none
}
