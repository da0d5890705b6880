package ops

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//	                |p1
//	              extra
//
// What a user types at hosta to change its configuration, while numbered datagrams of client and server
// cross: none may be lost.

// changing is an edge whose configuration changes.
type changing struct {
	*harness.TwoHosts
	streams []*harness.Stream
	extra   *topo.Host
	base    string // the text that the edge was started with
}

const extraAddr = "10.0.0.3"

func newChanging(t *testing.T) *changing {
	t.Helper()
	n, streams := newStreams(t)
	c := &changing{TwoHosts: n, streams: streams, base: n.Config("hosta")}
	extra, err := n.Topo.Host("extra")
	n.Must(err)
	c.extra = extra
	n.Must(n.Topo.Link(n.Ctx,
		topo.LinkEnd{Host: extra, Name: topo.EndName, Addrs: []netip.Prefix{netip.MustParsePrefix(extraAddr + "/24")}},
		topo.LinkEnd{Host: n.A, Name: "p1"}, n.TwoHosts.Options.InnerMTU))
	return c
}

// more has a port for extra.
func (c *changing) more() string {
	return c.base + "    - {name: extra, interface: p1, segment: lab}\n"
}

// file writes a configuration beside the edge's own.
func (c *changing) file(name, text string) string {
	c.T.Helper()
	path := filepath.Join(c.Dir, name)
	c.Must(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// own gives the edge's own file another text.
func (c *changing) own(text string) string {
	c.T.Helper()
	path := c.Edges["hosta"].Config
	c.Must(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// runs is a command that prints all the words; its answer comes at once.
func (c *changing) runs(command []string, words ...string) {
	c.T.Helper()
	c.Once(strings.Join(command, " "), func() error {
		out, err := says(c.TwoHosts, command...)
		return missing(out, err, words)
	})
}

// fails is a command that ends with a status, and says all the words.
func (c *changing) fails(status int, command []string, words ...string) {
	c.T.Helper()
	c.Once(strings.Join(command, " ")+" is refused", func() error {
		_, err := says(c.TwoHosts, command...)
		var exit interface{ ExitCode() int }
		if !errors.As(err, &exit) || exit.ExitCode() != status {
			return fmt.Errorf("%w, want exit status %d", err, status)
		}
		return missing(err.Error(), nil, words)
	})
}

func missing(out string, err error, words []string) error {
	for _, w := range words {
		if !strings.Contains(out, w) {
			err = errors.Join(err, fmt.Errorf("no %q in\n%s", w, out))
		}
	}
	return err
}

// extraWorks: its port is there, or not, as soon as a command has answered.
func (c *changing) extraWorks(want bool) {
	c.T.Helper()
	c.Once(fmt.Sprintf("the edge has extra's port: %t", want), func() error {
		ports, err := c.Ask("hosta").Ports(c.Ctx)
		if err == nil && len(ports) == 2 != want {
			err = fmt.Errorf("ports %+v", ports)
		}
		return err
	})
	if want {
		c.Fact("extra pings server", func() error { return harness.Ping(c.Ctx, c.extra, topo.ServerV4) })
		return
	}
	c.Once("extra pings nobody", func() error {
		if err := harness.Ping(c.Ctx, c.extra, topo.ServerV4); err == nil {
			return errors.New("it does")
		}
		return nil
	})
}

// history is what came into force last, the newest first.
func (c *changing) history(want ...string) {
	c.T.Helper()
	c.Fact("history says what came into force", func() error {
		out, err := says(c.TwoHosts, "history", "-o", "json")
		var list []api.RevisionInfo
		if err == nil {
			err = json.Unmarshal([]byte(out), &list)
		}
		var got []string
		for _, r := range list[:min(len(list), len(want))] {
			got = append(got, r.What+" by "+r.By)
		}
		if strings.Join(got, ", ") != strings.Join(want, ", ") {
			err = errors.Join(err, fmt.Errorf("%q", got))
		}
		return err
	})
}

// steps does one after the other on the same edges, each from the configuration that they were started with.
func (c *changing) steps(t *testing.T, steps ...changingStep) {
	t.Helper()
	for _, s := range steps {
		if !t.Run(s.name, func(t *testing.T) {
			sub := *c
			sub.TwoHosts = c.Sub(t)
			sub.Must(os.MkdirAll(sub.Dir, 0o700))
			s.do(&sub)
			sub.GoOn(c.streams)
			sub.runs([]string{"apply", sub.own(c.base)}, "is in force")
			sub.NoProblems("hosta")
		}) {
			return
		}
	}
	c.LostNothing(c.streams)
}

// changingStep is a test that goes on with the same edges.
type changingStep struct {
	name string
	do   func(*changing)
}

// TestApply is docs/guide/configure.md: what brings a configuration into force, and what takes it back.
func TestApply(t *testing.T) {
	t.Parallel()
	newChanging(t).steps(t,
		changingStep{"Apply", (*changing).applies},
		changingStep{"Reload", (*changing).reloads},
		changingStep{"Fails", (*changing).failsWhole},
		changingStep{"Confirm", (*changing).confirms},
		changingStep{"BrokenFile", (*changing).startsWithBrokenFile},
		changingStep{"CutsConnections", (*changing).cutsConnections},
	)
}

func (c *changing) applies() {
	more := c.file("more.yaml", c.more())
	c.extraWorks(false)
	c.runs([]string{"apply", "--dry-run", more}, "1 change; nothing is changed yet", "+ spec.ports[extra]")
	c.extraWorks(false)
	c.runs([]string{"apply", more}, "revision 2 is in force, 1 change", "+ spec.ports[extra]")
	c.extraWorks(true)
	c.GoOn(c.streams)
	c.runs([]string{"status"}, "the configuration in force is of "+more)
	c.runs([]string{"show", "config"}, "# revision 2, in force since ", "apply by root", "{name: extra, interface: p1, segment: lab}")

	c.runs([]string{"apply", c.Edges["hosta"].Config}, "revision 3 is in force", "- spec.ports[extra]")
	c.extraWorks(false)
	c.runs([]string{"rollback", "2"}, "revision 4 is in force", "+ spec.ports[extra]")
	c.extraWorks(true)
	c.fails(2, []string{"rollback", "77"}, "there is no revision 77: see selvage history")
	c.fails(2, []string{"apply", c.file("bad.yaml", strings.Replace(c.base, "vni: 100", "vni: 0", 1))}, "bad.yaml:", "vni")
	c.fails(2, []string{"confirm"}, "no configuration waits for a confirmation")
	c.history("rollback to 2 by root", "apply by root", "apply by root", "start by edge")
}

// reloads: a reload is the edge's own: it reads the file, and answers. What it refuses changes nothing.
func (c *changing) reloads() {
	name := c.Edges["hosta"].Name
	c.own(c.more())
	c.runs([]string{"reload", name, "--dry-run"}, "1 change; nothing is changed yet", "+ spec.ports[extra]")
	c.extraWorks(false)
	c.runs([]string{"reload", name}, "is in force, 1 change", "+ spec.ports[extra]")
	c.extraWorks(true)
	c.own(strings.Replace(c.more(), "vni: 100", "vni: 0", 1))
	c.fails(2, []string{"reload", name}, "the file is not taken, the configuration before stays in force", "vni")
	c.own(strings.Replace(c.more(), "name: "+name, "name: other", 1))
	c.fails(2, []string{"reload", name}, "metadata.name changed from "+name+" to other")
	c.extraWorks(true)
	c.history("reload by root")
}

// failsWhole: a configuration that cannot be applied whole is rolled back. The traffic of others goes on.
func (c *changing) failsWhole() {
	index, err := c.A.Index("p1")
	c.Must(err)
	inTheWay := fmt.Sprintf("/sys/fs/bpf/selvage/%s/links/port-%d", c.Edges["hosta"].Name, index)
	c.Must(os.Mkdir(inTheWay, 0o700)) // so that the program of the new port has no place for its pin
	c.fails(1, []string{"apply", c.file("more.yaml", c.more())}, "the configuration is not in force, the one before is: ", "port-")
	c.extraWorks(false)
	c.NoProblems("hosta")
	c.Must(os.Remove(inTheWay))
	c.runs([]string{"apply", filepath.Join(c.Dir, "more.yaml")}, "is in force")
	c.extraWorks(true)
}

// confirms: what nobody confirms goes back by itself, also when the edge is killed before.
func (c *changing) confirms() {
	own := c.own(c.more())
	c.runs([]string{"apply", own, "--confirm", "2s"}, "is in force", "It goes back by itself at ")
	c.runs([]string{"status"}, "goes back by itself at ")
	c.Fact("it goes back", func() error {
		ports, err := c.Ask("hosta").Ports(c.Ctx)
		if err == nil && len(ports) != 1 {
			err = fmt.Errorf("ports %+v", ports)
		}
		return err
	})
	c.Fact("history says why", func() error {
		out, err := says(c.TwoHosts, "history")
		return missing(out, err, []string{"was not confirmed"})
	})

	c.runs([]string{"apply", "--confirm", "1h"}, "is in force") // the edge's own file
	c.extraWorks(true)
	c.fails(1, []string{"apply", own}, "waits for selvage confirm until ")
	name := c.Edges["hosta"].Name
	c.Edges["hosta"].Kill()
	c.GoOn(c.streams)
	c.Start(c.A, name, c.more())
	c.extraWorks(false)
	c.Once("status says why it is not the file's", func() error {
		return c.Problem("hosta", "start with the configuration's file: revision ")
	})
	c.fails(1, []string{"status"})
	c.GoOn(c.streams)

	c.runs([]string{"apply", own, "--confirm", "1h"}, "is in force")
	c.runs([]string{"confirm"}, " stays")
	c.extraWorks(true)
}

// startsWithBrokenFile: at start a broken file gives way to the last good revision, until it is mended.
func (c *changing) startsWithBrokenFile() {
	own := c.own(c.more())
	c.runs([]string{"apply", own}, "is in force")
	name := c.Edges["hosta"].Name
	c.Edges["hosta"].Kill()
	c.Start(c.A, name, strings.Replace(c.more(), "vni: 100", "vni: 0", 1))
	c.extraWorks(true)
	c.fails(1, []string{"status"})
	c.Once("status says that the file is broken, and what to do", func() error {
		return errors.Join(c.Problem("hosta", "start with the configuration's file: revision "), c.Problem("hosta", "mend the file, then selvage apply "+own))
	})
}

// cutsConnections: before it is in force, a dry run says which connections a policy would cut.
func (c *changing) cutsConnections() {
	policy := func(rules string) string {
		return strings.Replace(c.base, "  segments:\n", "  firewall:\n    default: drop\n    sections: [{name: all, rules: ["+rules+"]}]\n  segments:\n", 1)
	}
	const udp, icmp = "{name: udp, action: allow, services: [udp]}", "{name: ping, action: allow, services: [icmp/8]}"
	c.runs([]string{"apply", c.file("open.yaml", policy(udp+", "+icmp))}, "+ spec.firewall")
	c.GoOn(c.streams)
	c.Fact("client pings server", func() error { return harness.Ping(c.Ctx, c.Client, topo.ServerV4) })
	closed := c.file("closed.yaml", policy(icmp))
	c.Fact("a dry run counts the connections that it would cut", func() error {
		out, err := says(c.TwoHosts, "apply", "--dry-run", closed, "-o", "json")
		var info api.ApplyInfo
		if err == nil {
			err = json.Unmarshal([]byte(out), &info)
		}
		if err == nil && (info.Applied || info.Effects.SessionsCut == 0 || info.Effects.SessionsCut >= info.Effects.Sessions) {
			err = errors.New(out)
		}
		return err
	})
	c.runs([]string{"apply", "-n", closed}, "- spec.firewall.sections[all].rules[udp]", "connections of the firewall, ", "no longer allowed.")
}
