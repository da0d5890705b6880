package nodes

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/agent"
	"github.com/selvage/selvage/kube/internal/password"
	"github.com/selvage/selvage/kube/internal/plan"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// The password of the router is a word of the nodes' configurations, too, so that what an edge shows of one has "(secret)" there.
const (
	wrong, right = "a-wrong-canary", "gateways"
	router       = "198.51.100.1"
)

// A router that wants a password has a session with nodes that have it, and no routes of nodes with another one. A password that cannot
// be used changes nothing of what is in force, and the nodes say what is the matter.
func TestBGPPassword(t *testing.T) {
	t.Parallel()
	b := newCluster(t)
	defer b.dump()
	f := b.advertise()
	sessions := []netip.Addr{harness.WanAddr(203, 4), harness.WanAddr(204, 4)}
	lines := []string{"router bgp 65100"}
	for _, s := range sessions {
		lines = append(lines, fmt.Sprintf("neighbor %s password %s", s, right))
	}
	b.Must(f.Configure(b.Ctx, lines...))
	key := v1alpha1.SecretKey{Name: "routers", Key: "rack1"}
	w := &withPasswords{cluster: b, key: key, nodes: map[string]*agent.Node{}}
	b.edges()
	b.input.Gateways[0].Spec.Uplink.BGP.Neighbours[0].PasswordSecret = key

	w.put(wrong)
	for _, h := range b.Hosts[2:] {
		b.Fact(h.Name+" says that there is no session", func() error {
			s := w.made(h)
			if !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReady) || len(s.Gateways) != 1 || !strings.Contains(s.Gateways[0].Message, "there is no BGP session with "+router) {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
	}
	b.routedNowhere(f)

	w.put(right)
	for _, h := range b.Hosts[2:] {
		w.made(h)
	}
	b.Must(f.AwaitSessions(b.Ctx, sessions...))
	b.serving(3, 4)
	b.routed(f, 3)
	b.leaves(b.web1, "tcp", harness.Outside4, advertised4)
	b.leaves(b.web2, "udp", harness.Outside6, advertised6)
	w.once(b.Hosts[2])

	for _, last := range []bool{true, false} {
		w.spoil(last)
		for _, h := range b.Hosts[2:] {
			s := w.made(h)
			c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
			if c == nil || c.Reason != v1alpha1.ReasonPassword || !strings.HasPrefix(c.Message, "Secret x/routers: there is none; ") && !strings.HasPrefix(c.Message, "Secret x/routers: there is none: ") {
				t.Errorf("%s, with the last one: %t: %+v", h.Name, last, c)
			}
		}
		b.Must(f.Sessions(b.Ctx, sessions...))
		b.routed(f, 3)
	}
	w.secret(b.Hosts[2:])
}

// withPasswords are nodes with what of an agent makes them be what plans say.
type withPasswords struct {
	*cluster
	key   v1alpha1.SecretKey
	nodes map[string]*agent.Node
	has   map[string]plan.Password // by node
}

func (w *withPasswords) node(h *topo.Host) *agent.Node {
	if w.nodes[h.Name] == nil {
		w.nodes[h.Name] = &agent.Node{Edge: w.Ask(h.Name), File: w.Edges[h.Name].Config, Steer: w.steerer(), Within: h.Do}
	}
	return w.nodes[h.Name]
}

// put has all gateways' nodes have a password.
func (w *withPasswords) put(text string) {
	w.T.Helper()
	w.has = map[string]plan.Password{}
	for _, h := range w.Hosts[2:] {
		file, err := agent.Passwords(w.node(h).File).Put(w.key, []byte(text))
		w.Must(err)
		w.has[h.Name] = plan.Password{File: file}
	}
}

// spoil has the Secret be gone, for agents that have a last password, or have none.
func (w *withPasswords) spoil(last bool) {
	for name, p := range w.has {
		p.Problem = "Secret x/" + w.key.Name + ": there is none"
		if !last {
			p.File = ""
		}
		w.has[name] = p
	}
}

// made has a node be what its plan says, and is what its agent reports.
func (w *withPasswords) made(h *topo.Host) v1alpha1.EgressNodeStatus {
	w.T.Helper()
	w.input.Passwords = map[v1alpha1.SecretKey]plan.Password{w.key: w.has[h.Name]}
	p := w.plan(h)
	s := agent.Report(dut.EdgeName(h), v1alpha1.EgressNodeStatus{}, p, w.node(h).Make(w.Ctx, p))
	text, err := json.Marshal(s)
	w.Must(err)
	if strings.Contains(string(text), wrong) {
		w.T.Errorf("%s reports a password: %s", h.Name, text)
	}
	return s
}

// once is a fact: what an edge has is not given to it again.
func (w *withPasswords) once(h *topo.Host) {
	w.T.Helper()
	count := func() int {
		list, err := w.Ask(h.Name).Config().History(w.Ctx)
		w.Must(err)
		return len(list)
	}
	before := count()
	for range 2 {
		w.made(h)
	}
	if after := count(); after != before {
		w.T.Errorf("it had %d configurations and has %d", before, after)
	}
	info, err := w.Ask(h.Name).Config().Show(w.Ctx)
	w.Must(err)
	if text := info.Files[0].Text; strings.Contains(text, right) || !strings.Contains(text, "(secret):\n") {
		w.T.Errorf("it shows\n%s", text)
	}
}

// secret is a fact: each node has one file with a password, the last, which only root may read; no other file of the lab, a log or a
// configuration, has the first.
func (w *withPasswords) secret(hosts []*topo.Host) {
	w.T.Helper()
	for _, h := range hosts {
		files, err := filepath.Glob(filepath.Join(string(agent.Passwords(w.node(h).File)), "*", "*"))
		w.Must(err)
		if got := password.Read(files); len(got) != 1 || got[0] != right {
			w.T.Errorf("%s has passwords in %v", h.Name, files)
			continue
		}
		if info, err := os.Stat(files[0]); err != nil || info.Mode() != 0o600 {
			w.T.Errorf("%s: %v, %v", files[0], info.Mode(), err)
		}
	}
	w.Must(filepath.WalkDir(hosts[0].Lab().Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), wrong) {
			w.T.Errorf("%s has a password", path)
		}
		return err
	}))
}

// routedNowhere is a fact: the router has no route to the addresses.
func (b *cluster) routedNowhere(f *dut.FRR) {
	b.T.Helper()
	b.Once("no route leads to the addresses", func() error {
		for _, family := range []int{3, 4} {
			if err := routesLeadTo(b.Ctx, f, family); err == nil {
				return fmt.Errorf("they lead to edge%d", family)
			}
		}
		return nil
	})
}
