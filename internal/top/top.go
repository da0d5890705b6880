package top

import (
	"context"
	"errors"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/selvage/selvage/internal/api"
)

// Options say what is shown where.
type Options struct {
	Client   *api.Client
	Interval time.Duration // between two readings
	In       io.Reader     // a terminal
	Out      io.Writer     // the same
	Program  string        // path of selvage, for the commands about a line
	Edge     []string      // the arguments by which they find the edge
}

func (o Options) commands() commands {
	return commands{program: o.Program, edge: o.Edge, now: time.Now}
}

// Run shows an edge until "q" is pressed or ctx ends. The terminal is afterwards as it was.
func Run(ctx context.Context, o Options) error {
	m := newModel(o)
	defer func() { m.cancel() }()
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithoutSignalHandler()).Run()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		return nil
	}
	return err
}
