// Package agent has the edge of a node, and what leads the node's pods to it, be what the plan of the node says, and tells
// in the node's EgressNode what the edge and the kernel say of it. Nothing that forwards needs the agent: what is in the tables
// stays while it is away, and while the API server is.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/replace"
	"github.com/selvage/selvage/kube/internal/password"
	"github.com/selvage/selvage/kube/internal/plan"
	"github.com/selvage/selvage/kube/internal/steer"
)

// Node is what of a node an agent changes.
type Node struct {
	Edge  *api.Client
	File  string // of the edge
	Steer steer.Steerer
	// Within runs a function in the node's network namespace.
	Within func(func() error) error
	// Bypass is why packets of pods cannot be steered by the node's routing, "" where they can; nil: they can.
	Bypass func(context.Context) string

	others conflicts
	linger map[netip.Addr]time.Time // when the node found a pod last whose object is gone

	applied string    // what the kernel listed after the last change of the steering
	wanted  string    // what that was made of
	last    plan.Plan // of the last attempt
}

// Found is what the node has after an attempt to make it so.
type Found struct {
	Status api.Status
	Egress api.EgressInfo
	BGP    api.BGPInfo // where the plan has it
	// Members are those of the edge's live groups.
	Members map[string][]netip.Addr
	// Lacks is what of a policy the tables did not have, by its key, before and after.
	Lacks map[string]string
	// Failed is what could not be done at all, "" when all was.
	Failed string
	// Steered is whether packets of the plan's pods go to the edge, or nowhere.
	Steered bool
	// Bypass is why they do neither, whatever the tables say; "" where they do.
	Bypass string
	// Conflicts are other programs with what the steering would use. Packets of the plan's pods go nowhere then.
	Conflicts []string
}

// Make has the node be as p says. A new pod is in its groups before packets of it are steered, and one that goes is steered until
// it is out of them: so what is steered is never without its policy.
func (n *Node) Make(ctx context.Context, p plan.Plan) Found {
	f := Found{Lacks: map[string]string{}}
	// What is found now is what is mended: what changes in between is the next look's. It should be what the last plan was; that
	// this one is another is nobody's fault.
	has, unread := n.members(ctx)
	if n.wanted != "" { // not at the start, where nothing is as it should be
		n.inspect(ctx, n.last, has, &f)
	}
	n.last = p
	errs := []error{unread, n.prepare(&p, &f), n.file(ctx, p)}
	var err error
	f.Status, err = n.Edge.Status(ctx)
	errs = append(errs, err)
	f.Egress, err = n.egress(ctx, p)
	errs = append(errs, err)
	if p.BGP {
		f.BGP, err = n.Edge.BGP().Info(ctx)
		errs = append(errs, err)
	}
	errs = append(errs, n.group(ctx, has, union(has, p.Groups)))
	err = n.steer(ctx, p, &f)
	f.Steered = err == nil
	errs = append(errs, err, n.group(ctx, union(has, p.Groups), p.Groups))
	if has, err = n.members(ctx); err == nil {
		f.Members = has
		n.inspect(ctx, p, has, &f)
	}
	for _, c := range p.Policies {
		if c.Problem != "" {
			f.lacks(c.Key, c.Problem)
		}
	}
	for _, s := range p.Steering {
		if len(f.Conflicts) > 0 {
			f.lacks(s.Policy, f.Conflicts[0])
		}
	}
	if n.Bypass != nil {
		f.bypassed(p, n.Bypass(ctx))
	}
	if err := errors.Join(append(errs, err)...); err != nil {
		f.Failed = err.Error()
	}
	return f
}

// file writes the edge's file, and has the edge take it. A file that the edge refuses stays beside the one in force, and so do passwords.
func (n *Node) file(ctx context.Context, p plan.Plan) error {
	if p.Password.Missing {
		return fmt.Errorf("%s: %w", p.Password.Problem, errWithheld)
	}
	info, err := n.Edge.Config().Show(ctx)
	if err != nil {
		return errors.Join(err, write(n.File, p.Edge)) // the edge takes it when it starts
	}
	if len(info.Files) == 0 || info.Files[0].Text != api.WithoutSecrets(string(p.Edge), password.Read(p.Password.Files)) {
		if _, err := n.Edge.Config().Apply(ctx, api.ApplyQuery{Path: n.File, Files: []api.ConfigFile{{Path: n.File, Text: string(p.Edge)}}, For: "selvage-kube"}); err != nil {
			return err
		}
		if err := write(n.File, p.Edge); err != nil {
			return err
		}
	}
	return Passwords(n.File).Keep(p.Password.Files)
}

// write replaces a file in a folder that may be missing.
func write(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return replace.File(path, text)
}

// egress is what the edge says of policies and gateways; nothing where the file has none, about which an edge is not to be asked.
func (n *Node) egress(ctx context.Context, p plan.Plan) (api.EgressInfo, error) {
	if len(p.Gateways) == 0 {
		return api.EgressInfo{}, nil
	}
	return n.Edge.Egress().Info(ctx)
}

// group is an object of the edge.
type group struct {
	Name    string   `json:"name"`
	Members []string `json:"members"`
}

// members are those of all live groups that are in force.
func (n *Node) members(ctx context.Context) (map[string][]netip.Addr, error) {
	list, err := n.Edge.Live().List(ctx)
	if err != nil {
		return nil, err
	}
	groups := map[string][]netip.Addr{}
	for _, o := range list.Objects {
		if o.Kind != "group" || o.NotInForce != "" {
			continue
		}
		var g group
		if err := json.Unmarshal(o.Object, &g); err != nil {
			return nil, fmt.Errorf("group %s: %w", o.Key, err)
		}
		groups[o.Key] = []netip.Addr{}
		for _, m := range g.Members {
			if a, err := netip.ParseAddr(m); err == nil {
				groups[o.Key] = append(groups[o.Key], a)
			}
		}
		slices.SortFunc(groups[o.Key], netip.Addr.Compare)
	}
	return groups, nil
}

// union is the members of wanted groups and those that groups have.
func union(has, wanted map[string][]netip.Addr) map[string][]netip.Addr {
	out := maps.Clone(has)
	if out == nil {
		out = map[string][]netip.Addr{}
	}
	for name, list := range wanted {
		all := slices.Concat(list, has[name])
		slices.SortFunc(all, netip.Addr.Compare)
		out[name] = slices.Compact(all)
	}
	return out
}

// group has the wanted groups have these members, in one change. Groups of policies that are no longer wanted go: the edge would keep them
// without the policy too.
func (n *Node) group(ctx context.Context, has, wanted map[string][]netip.Addr) error {
	var q api.LiveQuery
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		list := wanted[name]
		if slices.Equal(has[name], list) && (has[name] != nil || len(list) == 0) {
			continue
		}
		op := api.LiveOperation{Op: api.LivePut, Kind: "group", Key: name}
		if len(list) == 0 {
			op = api.LiveOperation{Op: api.LiveRemove, Kind: "group", Key: name, IfExists: true}
		} else {
			text, err := json.Marshal(group{name, plan.Texts(list)})
			if err != nil {
				return err
			}
			op.Object = text
		}
		q.Operations = append(q.Operations, op)
	}
	for _, name := range slices.Sorted(maps.Keys(has)) {
		if _, is := wanted[name]; !is && plan.IsPolicy(name) {
			q.Operations = append(q.Operations, api.LiveOperation{Op: api.LiveRemove, Kind: "group", Key: name, IfExists: true})
		}
	}
	if len(q.Operations) == 0 {
		return nil
	}
	q.For = "selvage-kube"
	_, err := n.Edge.Live().Change(ctx, q)
	return err
}

// gone are the gateways of which no member serves.
func gone(p plan.Plan, info api.EgressInfo) map[string]bool {
	out := map[string]bool{}
	for _, g := range info.Groups {
		serves := slices.ContainsFunc(g.Members, func(m api.GatewayInfo) bool { return m.State == "serving" || m.State == "draining" })
		if !serves {
			out[p.Gateways[g.Name]] = true
		}
	}
	return out
}

// steer replaces the steering, if it is to be another or the kernel has another.
func (n *Node) steer(ctx context.Context, p plan.Plan, f *Found) error {
	gone := gone(p, f.Egress)
	to := n.Steer
	to.Cluster = p.Cluster
	wanted := to.Script(p.Steering, gone)
	return n.Within(func() error {
		listed, err := n.Steer.Listed(ctx)
		if err != nil {
			return err
		}
		if listed == n.applied && wanted == n.wanted && (listed != "") == (len(p.Steering) > 0) {
			return to.Lead(p.Steering) // somebody may have removed it
		}
		if n.wanted != "" && listed != n.applied {
			f.unsteered(p)
		}
		if err := to.Apply(ctx, p.Steering, gone); err != nil {
			return err
		}
		n.wanted = wanted
		n.applied, err = n.Steer.Listed(ctx)
		return err
	})
}

// inspect notes what the tables lack of a plan's policies; has are the members of the edge's groups.
func (n *Node) inspect(ctx context.Context, p plan.Plan, has map[string][]netip.Addr, f *Found) {
	info, err := n.egress(ctx, p)
	if err != nil {
		for _, c := range p.Policies {
			f.lacks(c.Key, "the edge does not answer: "+err.Error())
		}
		return
	}
	var listed string
	if err := n.Within(func() (err error) { listed, err = n.Steer.Listed(ctx); return err }); err != nil || listed == "" && len(p.Steering) > 0 || listed != n.applied {
		f.unsteered(p)
	}
	for _, c := range p.Policies {
		if c.Problem != "" {
			continue
		}
		if !slices.ContainsFunc(info.Policies, func(e api.EgressPolicyInfo) bool { return e.Name == c.EdgeName }) {
			f.lacks(c.Key, "the edge does not have the policy")
		}
		if !slices.Equal(has[c.EdgeName], p.Groups[c.EdgeName]) && len(has[c.EdgeName])+len(p.Groups[c.EdgeName]) > 0 {
			f.lacks(c.Key, "the edge's group of its pods is not what it should be")
		}
	}
}

// unsteered notes that no pod's packets may be relied on to go to the edge.
func (f *Found) unsteered(p plan.Plan) {
	for _, s := range p.Steering {
		f.lacks(s.Policy, "the table that steers pods is not what it should be")
	}
}

// bypassed notes that packets of pods do not pass where they are steered.
func (f *Found) bypassed(p plan.Plan, why string) {
	if f.Bypass = why; why == "" {
		return
	}
	f.Steered = false
	for _, s := range p.Steering {
		f.lacks(s.Policy, why)
	}
}

func (f *Found) lacks(key, what string) {
	if f.Lacks[key] == "" {
		f.Lacks[key] = what
	}
}
