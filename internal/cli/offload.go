package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/observe"
)

type offloadCmd struct {
	Probe offloadProbeCmd `cmd:"" help:"Test which offloads of the adapters work with tunnels. Switches them under live traffic."`
}

type offloadProbeCmd struct {
	query
	Yes    bool   `short:"y" help:"Do not ask for confirmation."`
	Remote string `arg:"" optional:"" placeholder:"REMOTE" help:"Probe only the paths to this remote, by name or address."`
}

// Help says what kong's flags do not.
func (*offloadProbeCmd) Help() string {
	return "A probe switches the offloads of an adapter on and off, sends packets through the tunnel after each switch, and checks them on the other side. " +
		"Some drivers drop the link for a moment. It takes some seconds a path. " +
		"The command says which adapters it would touch, and asks. Without a terminal it needs --yes."
}

// Run probes after the user agreed.
func (c *offloadProbeCmd) Run(ctx context.Context, s *streams) error {
	client, err := c.dial()
	if err != nil {
		return err
	}
	teps, err := client.TEPs(ctx)
	if err != nil {
		return err
	}
	plan, err := probePlan(teps, c.Remote)
	if err != nil {
		return err
	}
	if !c.Yes {
		if err := s.confirm(plan, "Go on?"); err != nil {
			return err
		}
	}
	question := func(client *api.Client, ctx context.Context) ([]api.TEPInfo, error) {
		return client.ProbeOffloads(ctx, c.Remote)
	}
	return show(ctx, c.query, s.out, question, observe.TEPs)
}

// probePlan says which adapters a probe touches, and for which remotes.
func probePlan(teps []api.TEPInfo, remote string) (string, error) {
	interfaces, paths := map[string]bool{}, 0
	var remotes []string
	for _, t := range teps {
		if remote != "" && t.Name != remote && !slices.ContainsFunc(t.Paths, func(p api.PathInfo) bool { return p.Remote.String() == remote }) && t.Address.String() != remote {
			continue
		}
		probed := slices.DeleteFunc(slices.Clone(t.Paths), func(p api.PathInfo) bool { return p.Offload == nil })
		for _, p := range probed {
			interfaces[p.Interface] = true
		}
		if paths += len(probed); len(probed) > 0 {
			name := t.Name
			if name == "" {
				name = t.Address.String()
			}
			remotes = append(remotes, name)
		}
	}
	if paths == 0 {
		return "", usageError{errors.New("there is no path to probe: see selvage teps, and configure spec.underlay.offloadProbe on all edges")}
	}
	return fmt.Sprintf("This switches offloads of %s on and off while traffic flows, for %s to %s. Some drivers drop the link for a moment.",
		strings.Join(slices.Sorted(maps.Keys(interfaces)), ", "), plural(paths, "path"), strings.Join(remotes, ", ")), nil
}

// confirm asks a user at a terminal. Without one it is refused.
func (s *streams) confirm(plan, question string) error {
	if !s.interactive {
		return usageError{fmt.Errorf("%s There is no terminal to ask at: give --yes", plan)}
	}
	fmt.Fprintf(s.err, "%s\n%s [y/N] ", plan, question)
	answer, err := bufio.NewReader(s.in).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer == "y" || answer == "yes" {
		return nil
	}
	if err != nil { // the line was not ended
		fmt.Fprintln(s.err)
	}
	return errors.New("nothing was done")
}
