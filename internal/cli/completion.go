package cli

import (
	"cmp"
	"context"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/completion"
	"github.com/selvage/selvage/internal/program"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"One of ${enum}."`
}

// Help says what kong's flags do not.
func (*completionCmd) Help() string {
	return "bash: selvage completion bash > /etc/bash_completion.d/selvage. " +
		"zsh: selvage completion zsh > \"${fpath[1]}/_selvage\". " +
		"fish: selvage completion fish > ~/.config/fish/completions/selvage.fish. " +
		"Commands, flags and their values are completed; names of edges, segments, ports and neighbours too, where this user may ask the edge."
}

// Run prints the script of a shell.
func (c *completionCmd) Run(s *streams) error {
	_, err := io.WriteString(s.out, completion.Script(program.Selvage, c.Shell))
	return err
}

// known is what running edges know of names.
type known struct{ target target } // the edge that is meant

func newKnown() *known {
	return &known{target{runtimeDir: runtimeDir{cmp.Or(os.Getenv("SELVAGE_RUNTIME_DIR"), api.DefaultRuntimeDir)}}}
}

// Set notes which edge is meant.
func (k *known) Set(flag, value string) {
	switch flag {
	case "edge":
		k.target.Edge = value
	case "runtime-dir":
		k.target.RuntimeDir = value
	}
}

// Of are names that an edge knows, and those of edges.
func (k *known) Of(ctx context.Context, name string) (list []completion.Candidate) {
	switch name {
	case "edge":
		names, _ := api.Running(k.target.RuntimeDir)
		for _, name := range names {
			list = append(list, completion.Candidate{Word: name, What: "running edge"})
		}
		return list
	case "revision":
		return k.revisions(ctx)
	}
	if names, ok := edgeNames[name]; ok {
		if client, err := k.target.dial(); err == nil {
			for _, word := range names(ctx, client) {
				list = append(list, completion.Candidate{Word: word, What: name})
			}
		}
	}
	return list
}

// revisions are those that an edge can go back to.
func (k *known) revisions(ctx context.Context) (list []completion.Candidate) {
	client, err := k.target.dial()
	if err != nil {
		return nil
	}
	history, _ := client.Config().History(ctx) // without an answer there are none
	for _, r := range history {
		if !r.InForce {
			list = append(list, completion.Candidate{Word: strconv.Itoa(r.ID), What: r.When.UTC().Format(time.DateTime) + ", " + r.What})
		}
	}
	return list
}

// edgeNames are the flags and arguments that take a name which the edge knows.
var edgeNames = map[string]func(context.Context, *api.Client) []string{
	"segment": func(ctx context.Context, c *api.Client) (names []string) {
		s, _ := c.Status(ctx) // without an answer there are none
		for _, segment := range s.Segments {
			names = append(names, segment.Name)
		}
		return names
	},
	"port": func(ctx context.Context, c *api.Client) (names []string) {
		ports, _ := c.Ports(ctx)
		for _, p := range ports {
			names = append(names, p.Name)
		}
		return names
	},
	"remote": func(ctx context.Context, c *api.Client) (names []string) {
		teps, _ := c.TEPs(ctx)
		for _, t := range teps {
			names = append(names, t.Address.String())
		}
		return names
	},
	"neighbour": func(ctx context.Context, c *api.Client) (names []string) {
		info, _ := c.BGP().Info(ctx)
		for _, n := range info.Neighbours {
			names = append(names, n.Name)
		}
		return names
	},
}
