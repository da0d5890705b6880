package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/alecthomas/kong"
)

// Command is the command line of an agent: selvage-lab agent, which the lab starts.
type Command struct {
	Dir     string        `help:"Private directory of the agent, which it removes; one that it makes when left out."`
	SSH     string        `name:"ssh" help:"SSH_CONNECTION of the session that it is started by."`
	MaxRate int64         `help:"Most bits a second that an instrument sends; 0 is no limit."`
	MaxTime time.Duration `default:"1m" help:"Longest time of an instrument."`
	Undo    bool          `help:"Only undo what a killed agent had changed."`
	// Services are made for a session when they are first asked something.
	Services Services `kong:"-"`

	Await time.Duration `help:"Write nothing before a first line comes, and wait so long for it: who attaches to a container does not read what came before."`
}

// Serve serves a controller on standard input and output. version is this program's.
func (c *Command) Serve(ctx context.Context, version string) error {
	switch {
	case c.Undo && c.Dir == "":
		return errors.New("--undo: name the directory of the agent that was killed by --dir")
	case c.Undo:
		return c.undo()
	}
	in := bufio.NewReader(os.Stdin)
	if err := c.awaitLine(in); err != nil {
		return err
	}
	if err := c.makeDir(); err != nil {
		return err
	}
	a := &agent{wire: wire{out: os.Stdout}, Command: c, version: version, limits: Limits{Rate: c.MaxRate, Time: c.MaxTime}}
	return a.serve(ctx, in)
}

// awaitLine waits for the controller's first line, where there is to be one.
func (c *Command) awaitLine(in *bufio.Reader) error {
	if c.Await == 0 {
		return nil
	}
	came := make(chan error, 1)
	go func() { // until the process exits: a read of standard input cannot be interrupted
		_, err := in.ReadSlice('\n')
		came <- err
	}()
	select {
	case err := <-came:
		if err != nil {
			return fmt.Errorf("wait for a controller: %w", err)
		}
		return nil
	case <-time.After(c.Await):
		return fmt.Errorf("no controller came in %s", c.Await)
	}
}

// sharedMemory is a file system of every container, where there may be no directory for temporary files.
const sharedMemory = "/dev/shm"

// makeDir makes the private directory, where none was given.
func (c *Command) makeDir() (err error) {
	if c.Dir != "" {
		return nil
	}
	var errs []error
	for _, base := range []string{os.TempDir(), sharedMemory} {
		if c.Dir, err = os.MkdirTemp(base, DirPrefix); err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("make the agent's directory: %w", errors.Join(errs...))
}

// undo undoes what the killed agent of the directory had changed. Its shell removes the rest.
func (c *Command) undo() error {
	l := ledger{dir: c.Dir}
	if err := l.load(); err != nil {
		return err
	}
	return l.undo()
}

// Run runs this process as an agent, when its arguments (without the program's name) say so, and
// exits; else it returns. A test whose binary is copied to places calls it first in TestMain.
func Run(args []string, version string, known Services) {
	if len(args) < 1 || args[0] != "agent" {
		return
	}
	c := Command{Services: known}
	parser, err := kong.New(&c)
	if err == nil {
		_, err = parser.Parse(args[1:])
	}
	if err == nil {
		err = c.Serve(context.Background(), version)
	}
	if err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Exit(0)
}
