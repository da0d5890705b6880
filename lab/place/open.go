package place

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/selvage/selvage/internal/printable"
	"github.com/selvage/selvage/lab/agent"
)

// Sudo is how the agent becomes root where the user of an SSH place is not.
type Sudo string

// Ways to become root.
const (
	NoSudo       Sudo = "no"   // the agent is the user
	SudoNoPrompt Sudo = "yes"  // sudo without a password
	SudoPassword Sudo = "pass" // sudo with Options.Password
)

// Options are of sessions.
type Options struct {
	Version string // of this program, which the agent's has to be
	Limits  agent.Limits
	// SSH is the ssh program with further arguments; "ssh" by default.
	SSH  []string
	Sudo Sudo
	// Password asks the user for a password. It goes to sudo's standard input.
	Password func(prompt string) (string, error)
	// Programs is a directory with selvage-lab-linux-ARCH for machines of another architecture
	// than this one; by default that of this program.
	Programs string
	// Connect is how long it may take to connect; Copy, to copy the program. By default a
	// minute and five.
	Connect, Copy time.Duration
}

func (o *Options) fill() {
	if len(o.SSH) == 0 {
		o.SSH = []string{"ssh"}
	}
	if o.Limits.Time == 0 {
		o.Limits.Time = time.Minute
	}
	if o.Connect == 0 {
		o.Connect = time.Minute
	}
	if o.Copy == 0 {
		o.Copy = 5 * time.Minute
	}
}

// Open starts an agent at a place and connects to it. The session has to be closed.
func Open(ctx context.Context, p Place, o Options) (*agent.Session, error) {
	o.fill()
	switch p.Kind {
	case SSH:
		return openRemote(ctx, p, o)
	case Namespace:
		return openLocal(ctx, p, o, "/run/netns/"+p.Name)
	case Process:
		return openLocal(ctx, p, o, fmt.Sprintf("/proc/%d/ns/net", p.PID))
	case Address:
		return nil, fmt.Errorf("%s is a device that packets only pass through, where nothing can run: name a place at its side, as ssh:HOST", p)
	}
	return nil, fmt.Errorf("no place was given: %s", forms)
}

// Restore undoes and removes what killed agents left at a place, and returns their directories.
// Each session begins with that.
func Restore(ctx context.Context, p Place, o Options) ([]string, error) {
	s, err := Open(ctx, p, o)
	if err != nil {
		return nil, err
	}
	if text := s.Hello.NotRestored; text != "" {
		err = fmt.Errorf("%s: %s", p, text)
	}
	return s.Hello.Restored, errors.Join(err, s.Close())
}

// openRemote connects by ssh, whose far end is the script of a shell.
func openRemote(ctx context.Context, p Place, o Options) (*agent.Session, error) {
	c, err := startProcess(append(o.sshTo(p), "exec sh -c '"+script(o, true)+"'"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p, err)
	}
	program, err := c.copyProgram(ctx, p, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p, c.failed(err))
	}
	return c.connect(ctx, p, o, program.hash)
}

// openLocal starts the script in a network namespace of this machine.
func openLocal(ctx context.Context, p Place, o Options, namespace string) (*agent.Session, error) {
	o.Sudo = NoSudo
	program, err := ownProgram()
	if err != nil {
		return nil, err
	}
	c, err := startProcessIn(namespace, []string{"sh", "-c", script(o, false), "sh", program.path})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p, err)
	}
	if _, err := c.await(ctx, o.Connect, saysPlace); err != nil {
		return nil, fmt.Errorf("%s: %w", p, c.failed(err))
	}
	return c.connect(ctx, p, o, program.hash)
}

// connect gives sudo its password and waits for the agent, which has to be this program.
func (c *connection) connect(ctx context.Context, p Place, o Options, hash string) (*agent.Session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.Connect, fmt.Errorf("no agent in %s", o.Connect))
	defer cancel()
	s, err := agent.NewSession(ctx, p.String(), c, c.out, c.in)
	if err != nil {
		return nil, err
	}
	if h := s.Hello; h.Version != o.Version || h.Program != hash {
		err := fmt.Errorf("%s: the agent's version is %s (%.12s), this one's %s (%.12s): build both from one source, or remove the old program",
			p, h.Version, h.Program, o.Version, hash)
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// copyProgram reads what the far end is and sends it the program for that.
func (c *connection) copyProgram(ctx context.Context, p Place, o Options) (*program, error) {
	words, err := c.await(ctx, o.Connect, saysPlace)
	if err != nil {
		return nil, err
	}
	program, err := programFor(words[0], o.Programs)
	if err != nil {
		return nil, err
	}
	password := ""
	if o.Sudo == SudoPassword && o.Password != nil {
		if password, err = o.Password(fmt.Sprintf("password for sudo at %s, which calls itself %q: ", p, printable.Bounded(words[1], 100))); err != nil {
			return nil, err
		}
		if strings.ContainsAny(password, "\r\n") {
			return nil, errors.New("a password has one line")
		}
	}
	if err := c.copyWithin(ctx, o.Copy, program); err != nil {
		return nil, fmt.Errorf("copy the program: %w", err)
	}
	if o.Sudo == SudoPassword {
		// sudo asks three times; without anything more to read it would wait for ever.
		_, err = io.WriteString(c.in, password+"\n\n\n")
	}
	return program, err
}

// copyWithin copies the program and reads that it is there.
func (c *connection) copyWithin(ctx context.Context, limit time.Duration, p *program) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it was not there in %s", limit))
	defer cancel()
	stop := context.AfterFunc(ctx, c.Kill)
	defer stop()
	err := c.copy(p)
	if errors.Is(err, syscall.EPIPE) {
		err = io.EOF // the script has ended, and says why
	}
	if err == nil {
		_, err = c.await(ctx, limit, saysCopied)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// The script writes these before what it says, and what a login shell printed stands before them.
const (
	saysPlace  = "selvage-place "  // machine's hardware name, user and host
	saysCopied = "selvage-copied " // bytes
)

// await reads up to a line with a mark of the script in it, and returns the words behind that.
func (c *connection) await(ctx context.Context, limit time.Duration, mark string) (words []string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("its shell did not run the script in %s", limit))
	defer cancel()
	stop := context.AfterFunc(ctx, c.Kill)
	defer stop()
	rest, came, err := agent.Await(c.out, mark)
	c.came = came
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case err != nil && !errors.Is(err, io.EOF):
		c.Kill() // it may print for ever
	}
	return append(strings.Fields(rest), "", ""), err
}

var _ agent.Process = (*connection)(nil)

// reader is large enough for answers to be read in few pieces.
func reader(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, 64<<10) }
