package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/observe"
)

type logCmd struct {
	Level logLevelCmd `cmd:"" help:"Show the levels of the log, or change them until the edge restarts."`
}

type logLevelCmd struct {
	query
	Levels []string `arg:"" optional:"" name:"level" help:"debug, info, warn, error or default, for all subsystems; or SUBSYSTEM=LEVEL."`
}

// Help says what kong's flags do not.
func (*logLevelCmd) Help() string {
	return "A subsystem is a part of an edge: without arguments all are listed. default is the level that the edge was started with. " +
		"A subsystem that writes more than 500 lines a second for long loses what is beyond, and its next line says how many."
}

// Run changes levels, and lists them.
func (c *logLevelCmd) Run(ctx context.Context, s *streams) error {
	question := func(client *api.Client, ctx context.Context) (info api.LogInfo, err error) {
		for _, text := range c.Levels {
			subsystem, level, of := strings.Cut(text, "=")
			if !of {
				subsystem, level = "", text
			}
			if of && subsystem == "" || level == "" {
				return info, usageError{fmt.Errorf("%q is neither LEVEL nor SUBSYSTEM=LEVEL", text)}
			}
			if info, err = client.Log().SetLevel(ctx, subsystem, level); err != nil {
				return info, err
			}
		}
		if len(c.Levels) == 0 {
			info, err = client.Log().Info(ctx)
		}
		return info, err
	}
	return show(ctx, c.query, s.out, question, observe.Log)
}
