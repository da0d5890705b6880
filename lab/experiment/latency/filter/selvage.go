package filter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
)

// Selvage is a SelvageHalf whose edge has a firewall at every port.
type Selvage struct {
	dut.SelvageHalf

	edges map[*topo.Host]*dut.Edge
	// opened are the connections that had begun when it was asked last.
	opened map[*topo.Host]uint64
}

// NewSelvage returns one that is not up.
func NewSelvage(o dut.SelvageOptions) *Selvage {
	f := &Selvage{edges: map[*topo.Host]*dut.Edge{}, opened: map[*topo.Host]uint64{}}
	started := o.Started
	o.Started = func(h *topo.Host, e *dut.Edge) {
		f.edges[h] = e
		if started != nil {
			started(h, e)
		}
	}
	f.SelvageHalf = dut.SelvageHalf(o)
	return f
}

// Police writes the edge's configuration with the policy, has it read again and waits until
// it says that it has the policy.
func (f *Selvage) Police(ctx context.Context, s topo.Site, policy *overlay.Firewall) error {
	e := f.edges[s.Host]
	configuration := f.Config(e.Name, s)
	if policy != nil {
		rules, err := EdgePolicy(*policy)
		if err != nil {
			return err
		}
		file := e.Name + "-policy.json"
		if err := os.WriteFile(filepath.Join(s.Host.Lab().Dir, file), rules, 0o644); err != nil {
			return err
		}
		configuration += EdgeFirewall(*policy, file)
	}
	if err := os.WriteFile(e.Config, []byte(configuration), 0o644); err != nil {
		return err
	}
	if err := e.Reload(); err != nil {
		return err
	}
	return awaitPolicy(ctx, e, policy)
}

// Patience with an edge that reads a policy: for the largest, and until a problem with its
// configuration is not one of the configuration before.
const (
	policyTime  = time.Minute
	problemTime = 2 * time.Second
)

// awaitPolicy waits until the edge's status has as many rules as the policy, with one for
// its default, or no firewall.
func awaitPolicy(ctx context.Context, e *dut.Edge, policy *overlay.Firewall) error {
	want, began := 0, time.Now()
	if policy != nil {
		want = len(policy.Rules) + 1
	}
	for {
		rules, problems, err := rulesOf(ctx, e)
		if err == nil && rules == want {
			return nil
		}
		refused := slices.IndexFunc(problems, func(p string) bool { return strings.Contains(p, "reload") })
		switch waited := time.Since(began); {
		case refused >= 0 && waited > problemTime:
			return fmt.Errorf("edge %s: %s", e.Name, problems[refused])
		case waited > policyTime:
			return errors.Join(fmt.Errorf("edge %s has %d rules after %s, not %d; its problems: %s", e.Name, rules, policyTime, want, strings.Join(problems, "; ")), err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// rulesOf are how many the edge has, and what it complains of.
func rulesOf(ctx context.Context, e *dut.Edge) (rules int, problems []string, err error) {
	document, err := e.Get(ctx, "/v1/status")
	if err != nil {
		return 0, nil, err
	}
	var status struct {
		Firewall struct {
			Rules int `json:"rules"`
		} `json:"firewall"`
		Problems []problem.Problem `json:"problems"`
	}
	err = json.Unmarshal(document, &status)
	return status.Firewall.Rules, problem.Texts(status.Problems), err
}

// EdgeFirewall is an edge's spec.firewall, whose rules are in a file.
func EdgeFirewall(fw overlay.Firewall, file string) string {
	t := fw.Timeouts
	return fmt.Sprintf(`  firewall:
    default: %s
    nonIP: %s
    strict: %t
    connections: %d
    halfOpen: %d
    logRate: %d
    timeouts: {opening: %s, established: %s, halfClosed: %s, timeWait: %s, closed: %s, udp: %s, udpReplied: %s, udpStream: %s, icmp: %s}
    include: [%s]
`, fw.Default, fw.NonIP, fw.Strict, fw.Sizes.Connections, fw.Sizes.HalfOpen, fw.LogRate,
		t.Opening, t.Established, t.HalfClosed, t.TimeWait, t.Closed, t.UDP, t.UDPReplied, t.UDPStream, t.ICMP, file)
}

// Passed is the connections that the edge's firewall let begin: no other rule of a policy
// here allows any that is measured. The rules' own counters would cost the edge seconds of a
// core where there are 100,000.
func (f *Selvage) Passed(ctx context.Context, s topo.Site) (uint64, error) {
	document, err := f.edges[s.Host].Get(ctx, "/v1/firewall")
	if err != nil {
		return 0, err
	}
	var firewall struct {
		Events []struct {
			Name  string `json:"name"`
			Count uint64 `json:"count"`
		} `json:"events"`
	}
	if err := json.Unmarshal(document, &firewall); err != nil {
		return 0, fmt.Errorf("the edge's firewall: %w", err)
	}
	for _, event := range firewall.Events {
		if event.Name == "conntrack-opened" {
			opened := event.Count - f.opened[s.Host]
			f.opened[s.Host] = event.Count
			return opened, nil
		}
	}
	return 0, errors.New("the edge's firewall does not count the connections that it let begin")
}

// The edge's documents, as far as a policy here needs them.
type (
	edgeRules struct {
		Groups   []edgeGroup   `json:"groups,omitempty"`
		Sections []edgeSection `json:"sections"`
	}
	edgeGroup struct {
		Name    string `json:"name"`
		Members []any  `json:"members"`
	}
	edgeSection struct {
		Name  string     `json:"name"`
		Rules []edgeRule `json:"rules"`
	}
	edgeRule struct {
		Name      string   `json:"name"`
		Action    string   `json:"action"`
		Direction string   `json:"direction"`
		From      []any    `json:"from,omitempty"`
		To        []any    `json:"to,omitempty"`
		AppliedTo []any    `json:"appliedTo,omitempty"`
		Services  []string `json:"services,omitempty"`
		Log       bool     `json:"log,omitempty"`
	}
)

// EdgePolicy is a policy's groups and rules as a file that an edge includes: JSON, which it
// reads faster than YAML.
func EdgePolicy(fw overlay.Firewall) ([]byte, error) {
	if len(fw.Defaults) > 0 {
		return nil, errors.New("defaults of segments are the segments', which this half does not write")
	}
	var document edgeRules
	for _, g := range fw.Groups {
		document.Groups = append(document.Groups, edgeGroup{g.Name, edgeMembers(g.Members)})
	}
	for _, r := range fw.Rules {
		services, err := edgeServices(r.Services)
		if err != nil {
			return nil, fmt.Errorf("rule %s of section %s: %w", r.Name, r.Section, err)
		}
		last := len(document.Sections) - 1
		if last < 0 || document.Sections[last].Name != r.Section {
			document.Sections = append(document.Sections, edgeSection{Name: r.Section})
			last++
		}
		document.Sections[last].Rules = append(document.Sections[last].Rules, edgeRule{
			Name: r.Name, Action: string(r.Verdict), Direction: string(r.Direction), Log: r.Log,
			From: edgeMembers(r.From), To: edgeMembers(r.To), AppliedTo: edgeMembers(r.AppliedTo), Services: services,
		})
	}
	return json.Marshal(document)
}

func edgeMembers(members []overlay.Member) []any {
	var all []any
	for _, m := range members {
		switch {
		case m.Prefix.IsValid():
			all = append(all, m.Prefix.String())
		case m.Range.First.IsValid():
			all = append(all, m.Range.First.String()+"-"+m.Range.Last.String())
		case m.MAC != nil:
			all = append(all, m.MAC.String())
		case m.Segment != "":
			all = append(all, map[string]string{"segment": m.Segment})
		case m.Port != "":
			all = append(all, map[string]string{"port": m.Port})
		case m.Labels != nil:
			all = append(all, map[string]any{"labels": m.Labels})
		default:
			all = append(all, map[string]string{"group": m.Group})
		}
	}
	return all
}

func edgeServices(services []overlay.Service) ([]string, error) {
	var all []string
	for _, s := range services {
		if s.Protocol < 0 || len(s.SourcePorts) > 0 {
			return nil, errors.New("a service of any protocol, or with source ports, has no short form")
		}
		proto := cmp.Or(map[int]string{1: "icmp", 6: "tcp", 17: "udp", 58: "icmpv6", 132: "sctp"}[s.Protocol], "ip/"+strconv.Itoa(s.Protocol))
		switch {
		case len(s.Ports) > 0:
			proto += "/" + strings.Join(portWords(s.Ports), ",")
		case (s.Protocol == 1 || s.Protocol == 58) && s.ICMPType >= 0:
			proto += "/" + strconv.Itoa(s.ICMPType)
			if s.ICMPCode >= 0 {
				proto += "/" + strconv.Itoa(s.ICMPCode)
			}
		}
		all = append(all, proto)
	}
	return all, nil
}
