package transaction

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/revision"
)

// portsEdge notes the names of the ports that it has, and fails with those that are called bad.
type portsEdge struct {
	ports []string
	takes int
}

func (e *portsEdge) Reopen(overlay.Edge) error { return nil }

func (e *portsEdge) Take(next overlay.Edge, _ plan.Policies) error {
	e.ports, e.takes = nil, e.takes+1
	for _, p := range next.Ports {
		e.ports = append(e.ports, p.Name)
		if p.Name == "bad" {
			return errFake
		}
	}
	return nil
}

func (e *portsEdge) Adjust(next overlay.Edge, p plan.Policies) error { return e.Take(next, p) }
func (e *portsEdge) LeftOut() error                                  { return nil }
func (e *portsEdge) Effects(overlay.Edge, Candidate) (api.ApplyEffects, error) {
	return api.ApplyEffects{Sessions: 7}, nil
}

const liveFile = `apiVersion: selvage.dev/v1alpha2
kind: Edge
metadata: {name: a}
spec:
  underlay: {interfaces: [eth0], tep: 192.0.2.1}
  segments: [{name: blue, vni: 100}]
  portPatterns: [{interfaces: "tap*", segment: blue}]
  ports:
  - {name: p0, interface: veth0, segment: blue}
`

// started is an edge of a file in a folder of its own, which may be started again.
type started struct {
	t      *testing.T
	dir    string
	edge   *portsEdge
	tr     *Transactions
	faults map[string]error
}

func newStarted(t *testing.T) *started {
	s := &started{t: t, dir: t.TempDir()}
	s.write(liveFile)
	s.start()
	return s
}

func (s *started) write(text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "a.yaml"), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *started) start() {
	s.t.Helper()
	s.faults = map[string]error{}
	o := Options{
		Path: filepath.Join(s.dir, "a.yaml"), StateDir: filepath.Join(s.dir, "state"), RuntimeDir: filepath.Join(s.dir, "run"), Load: config.LoadSource, Parse: config.Source.Read,
		Log: slog.New(slog.DiscardHandler), Report: func(what string, err error) { s.faults[what] = err },
	}
	first, broken, err := First(o)
	if err != nil || broken != nil {
		s.t.Fatal(err, broken)
	}
	s.edge = &portsEdge{}
	s.tr = New(o, s.edge, here{}, first)
	if err := s.edge.Take(first.Edge, first.Policies); err != nil {
		s.t.Fatal(err)
	}
}

func (s *started) do(operations ...api.LiveOperation) (api.LiveInfo, error) {
	return s.tr.Changes().ChangeLive(s.t.Context(), api.LiveQuery{Operations: operations}, "alice")
}

func (s *started) must(operations ...api.LiveOperation) {
	s.t.Helper()
	if info, err := s.do(operations...); err != nil || !info.Applied {
		s.t.Fatalf("%+v, %v", info, err)
	}
}

func (s *started) has(want string) {
	s.t.Helper()
	if got := strings.Join(s.edge.ports, " "); got != want {
		s.t.Errorf("ports %s, want %s", got, want)
	}
}

func port(name string, durable bool) api.LiveOperation {
	return api.LiveOperation{Op: api.LiveAdd, Kind: "port", Durable: &durable, Object: json.RawMessage(`{"name": "` + name + `", "interface": "x` + name + `", "segment": "blue"}`)}
}

// A live object outlasts a restart and changes of the file, and a reboot only where it is durable.
func TestLiveOutlasts(t *testing.T) {
	s := newStarted(t)
	s.must(port("p1", false), port("p2", true))
	s.has("p0 p1 p2")
	s.start()
	s.has("p0 p1 p2")
	more := strings.Replace(liveFile, "  ports:", "  ports:\n  - {name: p5, interface: veth5, segment: blue}", 1)
	source := config.Source{Path: "b.yaml", Files: []config.File{{Path: "b.yaml", Text: []byte(more)}}}
	if _, err := s.tr.Changes().Apply(t.Context(), revision.Revision{What: "apply", Path: "b.yaml", Source: source}, false, 0); err != nil {
		t.Fatal(err)
	}
	s.has("p5 p0 p1 p2")
	if _, err := s.tr.Changes().Rollback(t.Context(), 0, "alice"); err == nil {
		s.has("p0 p1 p2")
	}
	if err := os.RemoveAll(filepath.Join(s.dir, "run")); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.has("p0 p2")
}

// What does not fit, what cannot be applied and what cannot be kept changes nothing.
func TestLiveIsWholeOrNot(t *testing.T) {
	s := newStarted(t)
	s.must(port("p1", false))
	for name, operations := range map[string][]api.LiveOperation{
		"one of two does not fit": {port("p2", false), port("p0", false)}, "it cannot be applied": {port("p2", false), port("bad", false)},
	} {
		if info, err := s.do(operations...); err == nil || info.Applied {
			t.Errorf("%s: %+v", name, info)
		}
		s.has("p0 p1")
	}
	way := filepath.Join(s.dir, "state", "a", "live.json.new")
	if err := os.MkdirAll(filepath.Join(way, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.do(port("p2", true)); err == nil {
		t.Error("what cannot be kept is applied")
	}
	s.has("p0 p1")
	if err := os.RemoveAll(way); err != nil {
		t.Fatal(err)
	}
	takes := s.edge.takes
	info, err := s.tr.Changes().ChangeLive(t.Context(), api.LiveQuery{DryRun: true, Operations: []api.LiveOperation{port("p2", false)}}, "alice")
	if err != nil || info.Applied || len(info.Changes) != 1 || info.Effects.Sessions != 7 || s.edge.takes != takes {
		t.Errorf("dry run: %+v, %v", info, err)
	}
	s.must(port("p2", false))
	s.start()
	s.has("p0 p1 p2")
}

// A file that does not fit the live objects is refused while the edge runs; at a start it goes before, and they are problems
// that keep no others from a change.
func TestLiveAgainstFile(t *testing.T) {
	s := newStarted(t)
	s.must(port("p1", true), port("p2", true))
	clash := strings.ReplaceAll(liveFile, "p0", "p1")
	source := config.Source{Path: "b.yaml", Files: []config.File{{Path: "b.yaml", Text: []byte(clash)}}}
	_, err := s.tr.Changes().Apply(t.Context(), revision.Revision{What: "apply", Path: "b.yaml", Source: source}, false, 0)
	if err == nil || !strings.Contains(err.Error(), `live port p1: name: port "p1" already exists (spec.ports[0].name, b.yaml line 9)`) {
		t.Error(err)
	}
	s.has("p0 p1 p2")
	s.write(clash)
	s.start()
	s.has("p1 p2")
	if p := s.tr.Problems(); len(p) != 1 || !strings.Contains(p[0].Text, "live port p1 is not in force") {
		t.Errorf("%v", p)
	}
	if list := s.tr.Changes().Live(); len(list.Objects) != 2 || list.Objects[0].NotInForce == "" || list.Objects[1].NotInForce != "" {
		t.Errorf("%+v", list)
	}
	s.must(port("p3", false))
	s.has("p1 p2 p3")
	s.must(api.LiveOperation{Op: api.LiveRemove, Kind: "port", Key: "p1"})
	if p := s.tr.Problems(); len(p) != 0 {
		t.Errorf("%v", p)
	}
}

// What goes back by itself goes back without the live objects that came meanwhile being lost.
func TestLiveWhileUnconfirmed(t *testing.T) {
	s := newStarted(t)
	more := strings.Replace(liveFile, "  ports:", "  ports:\n  - {name: p5, interface: veth5, segment: blue}", 1)
	source := config.Source{Path: "a.yaml", Files: []config.File{{Path: "a.yaml", Text: []byte(more)}}}
	if _, err := s.tr.Changes().Apply(t.Context(), revision.Revision{What: "apply", Path: "a.yaml", Source: source}, false, 1<<40); err != nil {
		t.Fatal(err)
	}
	s.must(port("p1", false))
	s.has("p5 p0 p1")
	if _, err := s.tr.Changes().Rollback(t.Context(), 0, "alice"); err != nil {
		t.Fatal(err)
	}
	s.has("p0 p1")
}

// Ports by aliases come and go with their interfaces, and one that is wrong keeps nobody from a change.
func TestFollowAliases(t *testing.T) {
	synctest.Test(t, testFollowAliases)
}

func testFollowAliases(t *testing.T) {
	s := newStarted(t)
	edge, _, err := s.tr.Begin(map[string]string{"tap0": "selvage"})
	if err != nil || len(edge.Ports) != 2 {
		t.Fatal(err)
	}
	s.tr.FollowAliases(map[string]string{"tap1": "selvage", "tap2": "selvage segmnt=red", "tap3": ""})
	synctest.Wait()
	s.has("p0 tap1")
	if p := s.tr.Problems(); len(p) != 1 || !strings.Contains(p[0].Text, `alias of interface tap2 is not in force: unknown key "segmnt"`) {
		t.Errorf("%v", p)
	}
	s.must(port("p1", false))
	s.has("p0 p1 tap1")
	own := port("tap1", false)
	own.Object = json.RawMessage(`{"name": "tap1", "interface": "tap1", "segment": "blue", "labels": {"a": "b"}}`)
	s.must(own) // goes before the alias
	s.has("p0 p1 tap1")
	if c := s.tr.current(); len(c.alias.Objects()) != 0 || c.left["alias of interface tap1"] != nil {
		t.Errorf("%v, %v", c.alias.Objects(), c.left)
	}
}
