package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"github.com/selvage/selvage/internal/program"
	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiments"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/preflight"
	"github.com/selvage/selvage/lab/transit/tester"
)

// commands are the experiments in namespaces, and what is done at other places.
type commands struct {
	ShowVersion kong.VersionFlag `name:"version" help:"Print the version of this program."`

	experiments.Commands

	Restore restoreCmd `cmd:"" help:"Remove what killed labs left behind, here or at other places."`
	Agent   agentCmd   `cmd:"" hidden:"" help:"Serve a lab at this place: what selvage lab starts over SSH."`
	Doctor  doctorCmd  `cmd:"" hidden:"" help:"Examine hosts at places: what selvage doctor --hosts starts."`
}

type restoreCmd struct {
	Hosts []place.Place `placeholder:"PLACE" help:"Undo and remove what killed agents left at these places instead: ns:NAME, ssh:[USER@]HOST[:PORT] or pid:N."`

	place.Connection
}

// Run restores here, or at the places that are named.
func (c *restoreCmd) Run(ctx context.Context, s *streams, console *experiment.Console) error {
	if len(c.Hosts) == 0 {
		return (&experiments.Restore{}).Run(ctx, console)
	}
	o := c.Options(console.Version, console.Password)
	var errs []error
	for _, p := range c.Hosts {
		dirs, err := place.Restore(ctx, p, o)
		for _, dir := range dirs {
			fmt.Fprintf(s.out, "%s: undid and removed %s\n", p, dir)
		}
		if err == nil && len(dirs) == 0 {
			fmt.Fprintf(s.out, "%s: nothing was left behind\n", p)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

type doctorCmd struct{ preflight.Command }

// Run examines the hosts.
func (c *doctorCmd) Run(ctx context.Context, s *streams, console *experiment.Console) error {
	return c.Command.Run(ctx, &preflight.Console{Out: s.out, Err: s.err, Version: console.Version, Password: console.Password})
}

type agentCmd struct{ agent.Command }

// Run serves a controller.
func (c *agentCmd) Run(ctx context.Context) error {
	c.Services = agent.Services{tester.ServiceName: tester.Service}
	return c.Serve(ctx, program.Version())
}

// passwords asks for each place's password once: what is typed for one place is not sent to another.
func (s *streams) passwords() func(prompt string) (string, error) {
	known := map[string]string{}
	var mu sync.Mutex
	return func(prompt string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		password, asked := known[prompt]
		if asked {
			return password, nil
		}
		password, err := s.askPassword(prompt)
		if err == nil {
			known[prompt] = password
		}
		return password, err
	}
}

// askPassword asks by the program in SUDO_ASKPASS, or at the terminal.
func (s *streams) askPassword(prompt string) (string, error) {
	if program := os.Getenv("SUDO_ASKPASS"); program != "" {
		out, err := exec.Command(program, prompt).Output()
		if err != nil {
			return "", fmt.Errorf("$SUDO_ASKPASS %s: %w", program, err)
		}
		return strings.TrimRight(string(bytes.TrimRight(out, "\n")), "\r"), nil
	}
	terminal, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return "", fmt.Errorf("there is no terminal to ask at: set SUDO_ASKPASS to a program that prints the password: %w", err)
	}
	defer terminal.Close()
	fmt.Fprint(terminal, prompt)
	password, err := term.ReadPassword(int(terminal.Fd()))
	fmt.Fprintln(terminal)
	return string(password), err
}
