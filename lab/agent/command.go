package agent

import (
	"context"
	"os"
	"time"

	"github.com/alecthomas/kong"
)

// Command is the command line of an agent: selvage-lab agent, which the lab starts.
type Command struct {
	Dir     string        `required:"" help:"Private directory of the agent, which it removes."`
	SSH     string        `name:"ssh" help:"SSH_CONNECTION of the session that it is started by."`
	MaxRate int64         `help:"Most bits a second that an instrument sends; 0 is no limit."`
	MaxTime time.Duration `default:"1m" help:"Longest time of an instrument."`
	Undo    bool          `help:"Only undo what a killed agent had changed."`
}

// Serve serves a controller on standard input and output. version is this program's.
func (c *Command) Serve(ctx context.Context, version string) error {
	if c.Undo {
		return c.undo()
	}
	a := &agent{wire: wire{out: os.Stdout}, Command: c, version: version, limits: Limits{Rate: c.MaxRate, Time: c.MaxTime}}
	return a.serve(ctx, os.Stdin)
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
func Run(args []string, version string) {
	if len(args) < 1 || args[0] != "agent" {
		return
	}
	var c Command
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
