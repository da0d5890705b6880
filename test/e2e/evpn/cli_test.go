package evpn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/test/e2e/harness"
)

// tells runs a command about an edge of a number. What it prints is returned with an error
// too.
func (n *fabric) tells(number int, args ...string) (string, error) {
	e := n.edge(number)
	out, err := e.Output(context.WithoutCancel(n.Ctx), append(append([]string{harness.Program}, args...), "--edge", e.Edge.Name)...)
	return string(out), err
}

// tellsOf is a fact: a command about edge1 prints all these, and as JSON something that is
// valid.
func (n *fabric) tellsOf(command string, lines ...string) {
	n.T.Helper()
	args := strings.Fields(command)
	n.Fact("selvage "+command, func() error {
		text, err := n.tells(1, args...)
		if err != nil {
			return fmt.Errorf("%w: %s", err, text)
		}
		words := strings.Join(strings.Fields(text), " ")
		for _, line := range lines {
			if !strings.Contains(words, line) {
				err = errors.Join(err, fmt.Errorf("no %q in\n%s", line, text))
			}
		}
		return err
	})
	if args[0] == "prove" { // which takes its time
		return
	}
	n.Once("selvage "+command+" -o json", func() error {
		text, err := n.tells(1, append(args, "-o", "json")...)
		if err == nil && !json.Valid([]byte(text)) {
			err = errors.New(text)
		}
		return err
	})
}

// commandBGP and commandProve are all that docs/guide/evpn.md shows, while a fabric works and after somebody dug a hole.
func (n *fabric) commandBGP() {
	n.T.Helper()
	n.tellsOf("bgp", "AS 65000, router ID 192.0.2.1", "rr1 192.0.2.201 65000 established ")
	n.tellsOf("bgp neighbours rr1", "rr1, 192.0.2.201, AS 65000", "hold 9.0s, keepalive 3.0s")
	n.tellsOf("bgp routes", "multicast - 192.0.2.2 100 192.0.2.2 rr1", "prefix - 10.1.0.0/24 5000 192.0.2.2 rr1", "mac 02:00:00:00:00:01 - 100 192.0.2.1 self")
	n.tellsOf("bgp routes --unused -o wide", "02:00:5e:00:01:01 10.0.0.254", "it is the gateway, which is here too")
	n.tellsOf("fdb --origin bgp", "02:00:00:00:00:02 - 192.0.2.2 ")
	n.Once("a MAC address that is not frozen cannot be thawed, and the command says so", func() error {
		if _, err := n.tells(1, "bgp", "thaw", "red", "02:00:00:00:00:02"); err == nil || !strings.Contains(err.Error(), "frozen") {
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
	n.tellsOf("bgp reset rr1")
	n.Once("the session has stayed", func() error { return n.established(1, n.Reflectors[0].Addr) })
	n.Pings(harness.Way(n.guests["red1"], n.guests["red2"], 4))
}

// commandProve: a hole that BGP does not see is found, and named.
func (n *fabric) commandProve() {
	n.T.Helper()
	n.tellsOf("prove", "192.0.2.2 ", "192.0.2.3 ", "proven")
	n.tellsOf("prove red", "proven 8/8")
	n.tellsOf("prove 10.1.0.0/24 --timeout 1s", "proven 8/8")
	_, err := n.Switch.Output(n.Ctx, "nft", "table bridge hole { chain forward { type filter hook forward priority 0; ip daddr 192.0.2.2 udp dport 4789 drop; }; }")
	n.Must(err)
	n.Once("nothing of edge2 comes back", func() error {
		return n.proofs(map[int]string{2: api.ProofBroken, 3: api.ProofProven})
	})
	n.Once("the command says so, and ends with 1", func() error {
		text, err := n.tells(1, "prove", "red", "--timeout", "1s")
		if err == nil || !strings.Contains(err.Error(), "exit status 1") || !strings.Contains(text, "broken") {
			return fmt.Errorf("%w: %s", err, text)
		}
		n.T.Log(text)
		return nil
	})
	n.Once("BGP sees nothing of it", func() error {
		_, err := n.used(1, api.BGPRouteQuery{Type: api.BGPRouteMulticast}, func(r api.BGPRouteInfo) bool { return r.NextHop == n.edge(2).TEP })
		return errors.Join(err, n.established(1, n.Reflectors[0].Addr))
	})
	_, err = n.Switch.Output(n.Ctx, "nft", "delete table bridge hole")
	n.Must(err)
	n.Once("everything is proven again", func() error { return n.proofs(map[int]string{2: api.ProofProven, 3: api.ProofProven}) })
}

// proofs says what edge1 finds of others that is not as it should be, by their numbers.
func (n *fabric) proofs(want map[int]string) error {
	info, err := n.api(1).Prove(n.Ctx, api.ProveQuery{})
	if err != nil {
		return err
	}
	var errs []error
	seen := map[int]bool{}
	for _, p := range info.Proofs {
		for number, state := range want {
			if p.Remote != n.edge(number).TEP {
				continue
			}
			seen[number] = true
			if p.State != state || state == api.ProofBroken && (p.Cause == "" || p.Fix == "") {
				errs = append(errs, fmt.Errorf("%s of %s in %s%s is %s, want %s: %s (%s)", p.Name, p.Remote, p.Segment, p.Router, p.State, state, p.Cause, p.Fix))
			}
		}
	}
	if len(seen) != len(want) {
		errs = append(errs, fmt.Errorf("%d remotes were tried, want %d: %+v", len(seen), len(want), info.Proofs))
	}
	return errors.Join(errs...)
}

// What docs/guide/evpn.md configures FRR with is what FRR understands.
func TestEVPNDocumentedFRR(t *testing.T) {
	t.Parallel()
	n := harness.NewNetwork(t, "")
	text, err := os.ReadFile("../../../docs/guide/evpn.md")
	n.Must(err)
	found := 0
	for _, block := range strings.Split(string(text), "```text\n")[1:] {
		config, _, _ := strings.Cut(block, "```")
		if !strings.HasPrefix(config, "router bgp ") {
			continue
		}
		found++
		h, err := n.Topo.Host(fmt.Sprintf("frr%d", found))
		n.Must(err)
		f, err := dut.StartFRR(n.Ctx, h, dut.FRRConfig{BGP: config})
		n.Must(err)
		n.Must(f.Stop(n.Ctx))
	}
	if found < 3 {
		t.Errorf("%d configurations of FRR are in the document, want 3", found)
	}
}
