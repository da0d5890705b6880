package transaction

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/revision"
)

var errFake = errors.New("so the test wants it")

// edge notes what it is to do; what cannot be done is of the configuration with that many segments.
type edge struct {
	took    []int // segments of each
	opened  []int
	refused int // by Reopen
	failing int // in Take
	partial int // in LeftOut
}

func (e *edge) Reopen(next overlay.Edge) error {
	e.opened = append(e.opened, len(next.Segments))
	if len(next.Segments) == e.refused {
		return errFake
	}
	return nil
}

func (e *edge) Take(next overlay.Edge, _ plan.Policies) error {
	e.took = append(e.took, len(next.Segments))
	if len(next.Segments) == e.failing {
		return errFake
	}
	return nil
}

func (e *edge) Adjust(next overlay.Edge, p plan.Policies) error { return e.Take(next, p) }

func (e *edge) LeftOut() error {
	if len(e.took) > 0 && e.took[len(e.took)-1] == e.partial {
		return errFake
	}
	return nil
}

func (e *edge) Effects(overlay.Edge, Candidate) (api.ApplyEffects, error) {
	return api.ApplyEffects{}, nil
}

// here is a loop that does all where it is asked.
type here struct{}

func (here) Do(f func()) error      { f(); return nil }
func (here) Ended() <-chan struct{} { return nil }

// of is a configuration with so many segments.
func of(segments int) Candidate {
	text := strings.Repeat("s", segments)
	return Candidate{
		Edge:     overlay.Edge{Name: "a", Segments: make([]overlay.Segment, segments)},
		Revision: revision.Revision{What: "apply", Path: "a.yaml", Source: config.Source{Path: "a.yaml", Files: []config.File{{Path: "a.yaml", Text: []byte(text)}}}},
	}
}

func start(t *testing.T, e *edge, faults map[string]error) *Transactions {
	o := Options{
		Path: "a.yaml", StateDir: t.TempDir(), Log: slog.New(slog.DiscardHandler), Report: func(what string, err error) { faults[what] = err },
		Parse: func(s config.Source) (overlay.Edge, config.Source, error) {
			return of(len(s.Files[0].Text)).Edge, s, nil
		},
	}
	tr := New(o, e, here{}, of(1))
	tr.KeepFirst(time.Now())
	return tr
}

// What cannot be opened changes nothing; what cannot be applied, or not whole, is followed by the one before. None of
// them is a revision.
func TestTransactIsWholeOrNot(t *testing.T) {
	for name, test := range map[string]struct {
		edge edge
		took []int
	}{
		"programs that do not load": {edge{refused: 2}, nil}, "nothing is written": {edge{failing: 2}, []int{2, 1}}, "a part is left out": {edge{partial: 2}, []int{2, 1}},
	} {
		faults := map[string]error{}
		tr := start(t, &test.edge, faults)
		if err := tr.transact(of(2), 0); !errors.Is(err, errFake) || !slices.Equal(test.edge.took, test.took) {
			t.Errorf("%s: %v, took %v, want %v", name, err, test.edge.took, test.took)
		}
		if list, err := tr.Changes().History(); err != nil || len(list) != 1 || len(tr.current().Edge.Segments) != 1 {
			t.Errorf("%s: history %v, %v", name, list, err)
		}
	}
	// Where something is left out already, what frees the room may leave something out, too.
	e := &edge{partial: 2}
	tr := start(t, e, map[string]error{})
	e.partial = 3
	e.took = []int{3}
	if err := tr.transact(of(3), 0); err != nil {
		t.Errorf("as much was left out before: %v", err)
	}
}

// A configuration that nobody confirms goes back, and none other comes into force before; one that is confirmed stays.
func TestUnconfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, faults := &edge{}, map[string]error{}
		tr := start(t, e, faults)
		if err := tr.transact(of(2), time.Minute); err != nil {
			t.Fatal(err)
		}
		if err := tr.transact(of(3), 0); err == nil || !strings.Contains(err.Error(), "revision 2 waits for selvage confirm") {
			t.Errorf("another one: %v", err)
		}
		if p := tr.Problems(); len(p) != 1 || !strings.Contains(p[0].Text, "revision 2 goes back by itself") {
			t.Errorf("problems %v", p)
		}
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if !slices.Equal(e.took, []int{2, 1}) || len(tr.Problems()) != 0 || faults[goBackByItself] != nil {
			t.Errorf("took %v, problems %v, faults %v", e.took, tr.Problems(), faults)
		}
		if err := tr.transact(of(3), time.Minute); err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Changes().Confirm(t.Context()); err != nil {
			t.Error(err)
		}
		<-time.After(2 * time.Minute)
		list, err := tr.Changes().History()
		if !slices.Equal(e.took, []int{2, 1, 3}) || err != nil || len(list) != 4 || list[0].Unconfirmed {
			t.Errorf("took %v, history %+v, %v", e.took, list, err)
		}
		if _, err := tr.Changes().Confirm(t.Context()); err == nil {
			t.Error("nothing waits, and is confirmed")
		}
	})
}

// Going back takes the text of a revision, by its number or the one before.
func TestRollback(t *testing.T) {
	e := &edge{}
	tr := start(t, e, map[string]error{})
	for n := 2; n <= 3; n++ {
		if err := tr.transact(of(n), 0); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := tr.Changes().Rollback(t.Context(), 0, "alice"); err != nil || info.Revision.What != "rollback to 2" || info.Revision.By != "alice" {
		t.Errorf("%+v, %v", info, err)
	}
	if _, err := tr.Changes().Rollback(t.Context(), 1, ""); err != nil {
		t.Error(err)
	}
	if mistake := (api.BadRequest{}); !slices.Equal(e.took, []int{2, 3, 2, 1}) {
		t.Errorf("took %v", e.took)
	} else if _, err := tr.Changes().Rollback(t.Context(), 77, ""); !errors.As(err, &mistake) {
		t.Errorf("a revision that there is not: %v", err)
	}
}
