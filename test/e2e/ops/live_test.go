package ops

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
// Objects are added to the running edge at hosta, while numbered datagrams of client and server cross, of which
// none may be lost.

// live are the keys of the live objects.
func (c *changing) live(want ...string) {
	c.T.Helper()
	c.Fact(fmt.Sprintf("the live objects are %q", want), func() error {
		list, err := c.Ask("hosta").Live().List(c.Ctx)
		got := []string{}
		for _, o := range list.Objects {
			got = append(got, o.Kind+" "+o.Key+" "+o.NotInForce)
		}
		for i := range got {
			got[i] = strings.TrimSpace(got[i])
		}
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("%q", got)
		}
		return err
	})
}

// again kills the edge and starts it anew; before begins meanwhile.
func (c *changing) again(before func()) {
	c.T.Helper()
	name, text := c.Edges["hosta"].Name, c.Config("hosta")
	c.Edges["hosta"].Kill()
	if before != nil {
		before()
	}
	c.Start(c.A, name, text)
	c.Fact("the next edge answers", func() error {
		_, err := c.Ask("hosta").Status(c.Ctx)
		return err
	})
}

// TestLiveObjects is docs/guide/live.md.
func TestLiveObjects(t *testing.T) {
	t.Parallel()
	newChanging(t).steps(t,
		changingStep{"Objects", (*changing).liveObjects},
		changingStep{"Patterns", (*changing).portPatterns},
		changingStep{"Groups", (*changing).liveGroups},
	)
}

func (c *changing) liveObjects() {
	c.runs([]string{"port", "add", "extra", "--interface", "p1", "--segment", "lab", "--allow-address", extraAddr, "--wait", "5s"}, "+ live.port[extra]")
	c.extraWorks(true)
	c.runs([]string{"live"}, "port", "extra", "in force")
	c.runs([]string{"port", "add", "extra", "--interface", "p1", "--segment", "lab", "--allow-address", extraAddr, "--may-exist"}, "it is so already")
	c.fails(1, []string{"port", "add", "extra", "--segment", "lab"}, "live port extra already exists (version 1)")
	c.fails(1, []string{"port", "set", "extra", "--allow-address", "none", "--if-version", "7"}, "version 7 was expected, it is 1")
	c.fails(1, []string{"port", "remove", "nobody"}, `there is no live port "nobody"`)
	c.runs([]string{"port", "remove", "nobody", "--if-exists"}, "it is so already")
	c.fails(2, []string{"port", "add", "other", "--segment", "lba"}, `live port other: segment: there is no segment "lba"; did you mean "lab"?`)
	c.fails(2, []string{"port", "add", "p0", "--segment", "lab"}, "already", c.Edges["hosta"].Config+" line")
	c.runs([]string{"port", "set", "extra", "--allow-address", "10.0.0.77", "--if-version", "1"}, "10.0.0.3/32", "10.0.0.77/32")
	c.Fact("who may not send does not", func() error {
		if err := harness.Ping(c.Ctx, c.extra, topo.ServerV4); err == nil {
			return errors.New("it does")
		}
		return nil
	})
	c.runs([]string{"port", "set", "extra", "--allow-address", "none"}, "live.port[extra].allowed")
	c.extraWorks(true)
	c.runs([]string{"port", "remove", "extra", "-n"}, "1 change; nothing is changed yet")
	c.extraWorks(true)

	c.runs([]string{"segment", "add", "green", "--vni", "4242", "--durable"}, "+ live.segment[green]")
	c.runs([]string{"remote", "add", "far", "--tep", "192.0.2.77", "--segment", "green"}, "+ live.remote[far]")
	c.runs([]string{"fdb", "add", "02:00:00:00:00:77", "--segment", "green", "--remote", "far"}, "+ live.fdb[green/02:00:00:00:00:77]")
	c.runs([]string{"neighbour", "add", "10.0.0.77", "02:00:00:00:00:77", "--segment", "green"}, "+ live.neighbour[green/10.0.0.77]")
	c.runs([]string{"fdb", "--static"}, "02:00:00:00:00:77")
	c.runs([]string{"neighbours"}, "10.0.0.77")
	c.live("remote far", "segment green", "port extra", "fdb green/02:00:00:00:00:77", "neighbour green/10.0.0.77")
	c.runs([]string{"show", "config"}, "# Not in the file:", "#   segment green (live, version 4 by ", ", durable): {", "#   port extra (live, version 3 by ", ", until a reboot): {")
	c.fails(2, []string{"segment", "remove", "green"}, `there is no segment "green"`)

	c.runs([]string{"apply", c.own(c.base)}, "0 changes") // the file is as it was, and they stay
	c.extraWorks(true)
	c.fails(2, []string{"apply", c.own(c.more())}, `live port extra: `, c.Edges["hosta"].Config+" line")
	c.own(c.base)

	c.again(nil)
	c.live("remote far", "segment green", "port extra", "fdb green/02:00:00:00:00:77", "neighbour green/10.0.0.77")
	c.extraWorks(true)
	name := c.Edges["hosta"].Name
	c.again(func() { c.Must(os.Remove(filepath.Join(api.DefaultRuntimeDir, name+".live"))) }) // a reboot
	c.live("segment green")
	c.runs([]string{"live", "apply", c.file("live.json", `{"ports": [{"name": "extra", "interface": "p1", "segment": "lab"}], "operations": [{"op": "remove", "kind": "segment", "key": "green"}]}`)},
		"2 changes", "- live.segment[green]", "+ live.port[extra]")
	c.extraWorks(true)
	c.runs([]string{"port", "remove", "extra"}, "- live.port[extra]")
	c.extraWorks(false)
}

// portPatterns: ports come and go with their interfaces, by patterns and aliases.
func (c *changing) portPatterns() {
	c.own(c.base + "  portPatterns:\n  - {interfaces: \"p?\", segment: lab}\n")
	c.runs([]string{"apply"}, "+ spec.portPatterns")
	c.extraWorks(false)
	alias := func(text string) {
		c.T.Helper()
		_, err := c.A.Output(c.Ctx, "ip", "link", "set", "dev", "p1", "alias", text)
		c.Must(err)
	}
	alias("selvage address=" + extraAddr)
	c.Fact("extra pings server", func() error { return harness.Ping(c.Ctx, c.extra, topo.ServerV4) })
	c.live("port p1")
	c.runs([]string{"ports"}, "p1")
	alias("selvage address=10.0.0.77")
	c.Fact("who may not send does not", func() error {
		if err := harness.Ping(c.Ctx, c.extra, topo.ServerV4); err == nil {
			return errors.New("it does")
		}
		return nil
	})
	alias("selvage adress=" + extraAddr)
	c.Fact("a wrong alias closes the port", func() error {
		return c.Problem("hosta", `alias of interface p1 is not in force: unknown key "adress": did you mean "address"?`)
	})
	c.extraWorks(false)
	alias("selvage")
	c.Fact("extra pings server again", func() error { return harness.Ping(c.Ctx, c.extra, topo.ServerV4) })
	c.again(nil)
	c.extraWorks(true)
	_, err := c.A.Output(c.Ctx, "ip", "link", "set", "dev", "p1", "alias", "the spare one")
	c.Must(err)
	c.live()
	c.extraWorks(false)
	tap, err := harness.OpenTap(c.A, "p7", false)
	c.Must(err)
	_, err = c.A.Output(c.Ctx, "ip", "link", "set", "dev", "p7", "alias", "selvage segment=lab", "up")
	c.Must(err)
	c.live("port p7")
	c.Must(tap.Close())
	c.live()
}

// liveGroups: members of a group decide who passes as soon as the command has answered, and cut nobody else's connections.
func (c *changing) liveGroups() {
	rules := "{name: udp, action: allow, services: [udp]}, {name: ping, action: allow, from: [pods], services: [icmp/8]}"
	c.own(strings.Replace(c.base, "  segments:\n", "  firewall:\n    default: drop\n    groups: [{name: pods, live: true}, {name: fixed, members: [10.9.0.0/16]}]\n    sections: [{name: all, rules: ["+rules+"]}]\n  segments:\n", 1))
	c.runs([]string{"apply"}, "+ spec.firewall")
	pings := func(want bool) {
		c.T.Helper()
		c.Once(fmt.Sprintf("client pings server: %t", want), func() error {
			if err := harness.Ping(c.Ctx, c.Client, topo.ServerV4); (err == nil) != want {
				return fmt.Errorf("ping: %w", errors.Join(err, errors.New("it is the other way round")))
			}
			return nil
		})
	}
	pings(false)
	c.runs([]string{"group", "add-member", "pods", "10.0.0.1", "10.7.0.0/16"}, "+ live.group[pods]")
	pings(true)
	c.runs([]string{"group", "show", "pods"}, "10.7.0.0/16")
	c.runs([]string{"group", "remove-member", "pods", "10.0.0.1"}, "- live.group[pods].members[10.0.0.1]")
	pings(false)
	c.runs([]string{"group", "add-member", "pods", "port:access"}, "live.group[pods].members")
	pings(true)
	c.fails(1, []string{"group", "remove-member", "pods", "10.0.0.9"}, "live group pods has no member")
	c.fails(2, []string{"group", "add-member", "fixed", "10.0.0.1"}, `group "fixed" stands in `, "add live: true to it there")
	c.fails(2, []string{"group", "add", "others", "label:tier"}, "label:NAME=VALUE")
	c.runs([]string{"group", "remove", "pods"}, "- live.group[pods]")
	pings(false)
}
