package support

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// collector has items added by name.
type collector struct {
	*archive
	ctx context.Context // ends when the archive has to be written
}

// do adds what f has within a time.
func (c *collector) do(name, source string, within time.Duration, f func(ctx context.Context) ([]byte, error)) error {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(c.ctx, within)
	defer cancel()
	type answer struct {
		text []byte
		err  error
	}
	came := make(chan answer, 1) // f may hang where no context reaches, as in a read of a file: it is left behind
	go func() {
		text, err := f(ctx)
		came <- answer{text, err}
	}()
	var a answer
	select {
	case a = <-came:
	case <-ctx.Done():
		select {
		case a = <-came:
		case <-time.After(100 * time.Millisecond):
			a.err = ctx.Err()
		}
	}
	if errors.Is(a.err, context.DeadlineExceeded) {
		a.err = fmt.Errorf("no answer within %s: %w", time.Since(begin).Round(time.Millisecond), a.err)
	}
	c.add(name, source, time.Since(begin), a.text, a.err)
	return a.err
}

// commandTime is how long one command may take.
const commandTime = 4 * time.Second

// command adds what a command prints, with its messages.
func (c *collector) command(name string, argv ...string) {
	_ = c.do(name, strings.Join(argv, " "), commandTime, func(ctx context.Context) ([]byte, error) { return output(ctx, argv) })
}

// output runs a command, whose group ends with ctx.
func output(ctx context.Context, argv []string) ([]byte, error) {
	path, err := tool(argv[0])
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 200 * time.Millisecond
	cmd.Env = append(os.Environ(), "LC_ALL=C", "SYSTEMD_PAGER=", "SYSTEMD_COLORS=0")
	out := &bounded{}
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	var failed *exec.ExitError
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case errors.As(err, &failed) && out.Len() > 0: // it says why itself
		fmt.Fprintf(out, "\n%s: %s\n", argv[0], failed)
		err = nil
	}
	return out.Bytes(), err
}

// tool finds a program also where only root's path leads.
func tool(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/bin", "/bin"} {
		if path, err := exec.LookPath(dir + "/" + name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed", name)
}

// bounded keeps the beginning of what is written: more than an item has, so that this is seen.
type bounded struct{ bytes.Buffer }

// Write implements io.Writer.
func (b *bounded) Write(text []byte) (int, error) {
	if room := mostItem + 1 - b.Len(); room > 0 {
		b.Buffer.Write(text[:min(len(text), room)])
	}
	return len(text), nil
}

// file adds the beginning of a file.
func (c *collector) file(name, path string) {
	_ = c.do(name, path, time.Second, func(context.Context) ([]byte, error) { return readFile(path) })
}

func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, mostItem+1))
}
