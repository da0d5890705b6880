package harness

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/problem"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
)

// Reload gives the edge on a host another configuration and tells it so.
func (n *Network) Reload(host, config string) error {
	e := n.Edges[host]
	if err := os.WriteFile(e.Config, []byte(config), 0o644); err != nil {
		return err
	}
	return syscall.Kill(e.Command.PID(), syscall.SIGHUP)
}

// PortState waits until an edge says that a port is in a state.
func (n *Network) PortState(host, port, state string) error {
	ports, err := n.Ask(host).Ports(n.Ctx)
	for _, p := range ports {
		if p.Name == port && p.State == state {
			return err
		}
	}
	return errors.Join(fmt.Errorf("ports %+v", ports), err)
}

// NoProblems is a fact: an edge has nothing to complain about.
func (n *Network) NoProblems(host string) {
	n.T.Helper()
	n.Fact("edge on "+host+" reports no problem", func() error {
		status, err := n.Ask(host).Status(n.Ctx)
		if err == nil && len(status.Problems) > 0 {
			err = errors.New(strings.Join(problem.Texts(status.Problems), "; "))
		}
		return err
	})
}

// Started is told of every edge.
func (n *Network) Started(h *topo.Host, e *dut.Edge) { n.Edges[h.Name] = e }

// Start runs an edge on a host.
func (n *Network) Start(h *topo.Host, name, config string) *dut.Edge {
	n.T.Helper()
	e, err := dut.StartEdge(n.Ctx, h, cmp.Or(n.confined, Program), name, config)
	if err != nil {
		n.Fail("edge on "+h.Name+" answers", err)
	}
	n.Started(h, e)
	return e
}

// Ask is the API of the edge on a host.
func (n *Network) Ask(host string) *api.Client { return api.Dial("", n.Edges[host].Name) }

// Resolved is the fact that an edge knows the way to its remotes.
func (n *Network) Resolved(host string) {
	n.T.Helper()
	n.Fact("edge on "+host+" answers", func() error {
		_, err := n.Ask(host).Status(n.Ctx)
		return err
	})
	n.Fact("edge on "+host+" has its remotes resolved", func() error {
		teps, err := n.Ask(host).TEPs(n.Ctx)
		if err == nil && len(teps) == 0 {
			err = errors.New("it has none")
		}
		for _, tep := range teps {
			if tep.State != "resolved" {
				err = errors.Join(err, fmt.Errorf("%s is %s", tep.Address, tep.State))
			}
		}
		return err
	})
}

// Config is the text that the edge on a host was started with.
func (n *Network) Config(host string) string {
	n.T.Helper()
	text, err := os.ReadFile(n.Edges[host].Config)
	n.Must(err)
	return string(text)
}

// Nothing is nil when no file matches any of the patterns.
func Nothing(patterns ...string) error {
	var errs []error
	for _, p := range patterns {
		found, err := filepath.Glob(p)
		if len(found) > 0 {
			err = fmt.Errorf("there is %v", found)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Problem is nil when the edge on a host has a problem with these words.
func (n *Network) Problem(host, words string) error {
	status, err := n.Ask(host).Status(n.Ctx)
	if err == nil && !strings.Contains(strings.Join(problem.Texts(status.Problems), "\n"), words) {
		err = fmt.Errorf("problems %q", status.Problems)
	}
	return err
}

// Adopted is a fact: the process that runs now has taken over its predecessor's data path.
func (n *Network) Adopted(host string) {
	n.T.Helper()
	n.Fact("the next edge on "+host+" has taken over", func() error {
		status, err := n.Ask(host).Status(n.Ctx)
		if err == nil && !status.Adopted {
			err = errors.New("it has not")
		}
		return err
	})
}
