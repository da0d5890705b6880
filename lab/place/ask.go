package place

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/selvage/selvage/internal/printable"
	"github.com/selvage/selvage/internal/tail"
)

// mostSaid is the most of what a box says that an error has, in bytes.
const mostSaid = 2000

// mostAnswer is the most of an answer that is read, in bytes.
const mostAnswer = 1 << 20

// Ask runs a command of an SSH place's own command line, with no agent and no file there: a firewall
// or a switch need not be a Unix. It returns what the command printed, at most a megabyte of it.
func Ask(ctx context.Context, p Place, o Options, command string) (string, error) {
	o.fill()
	if p.Kind != SSH {
		return "", fmt.Errorf("%s is not reached by SSH, as a box with a command line of its own is: ssh:[USER@]HOST[:PORT]", p)
	}
	argv := append(o.sshTo(p), command)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	answer, said := &firstBytes{most: mostAnswer}, &tail.Buffer{}
	cmd.Stdout, cmd.Stderr = answer, said
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s: %q: %w", p, command, context.Cause(ctx))
	case errors.As(err, &exit) && exit.ExitCode() != sshFailed && answer.Len() > 0:
		return answer.String(), nil // what boxes exit with says little
	case err != nil:
		return "", fmt.Errorf("%s: %q: %w: %s", p, command, err, printable.Bounded(strings.TrimSpace(said.String()+" "+answer.String()), mostSaid))
	}
	return answer.String(), nil
}

// sshFailed is the exit status of ssh where it has no connection.
const sshFailed = 255

// sshTo is the command line of ssh up to the command of the other end.
func (o Options) sshTo(p Place) []string {
	argv := append(append([]string{}, o.SSH...), "-T", "-o", "BatchMode=yes")
	if p.User != "" {
		argv = append(argv, "-l", p.User)
	}
	if p.Port != 0 {
		argv = append(argv, "-p", fmt.Sprint(p.Port))
	}
	return append(argv, "--", p.Host)
}

// firstBytes keeps the beginning of what is written.
type firstBytes struct {
	bytes.Buffer
	most int
}

// Write keeps what there is room for and drops the rest.
func (f *firstBytes) Write(p []byte) (int, error) {
	if room := f.most - f.Len(); room > 0 {
		f.Buffer.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}
