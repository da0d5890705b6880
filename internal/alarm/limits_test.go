package alarm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/problem"
)

func TestLimitAlarm(t *testing.T) {
	info := func(exceeded uint64) []api.LimitInfo {
		return []api.LimitInfo{
			{Kind: "port", Owner: "alice", Limit: "broadcast", Description: "broadcast frames flooded", Unit: "per-second", Max: 1000, Exceeded: exceeded, Mode: "enforce"},
			{Kind: "segment", Owner: "blue", Limit: "half-open", Description: "half-open connections", Unit: "entries", Max: 5, Exceeded: 2 * exceeded, Mode: "observe"},
		}
	}
	var w limitWatch
	at := time.Unix(1000, 0)
	look := func(exceeded uint64) []problem.Problem {
		at = at.Add(10 * time.Second)
		w = w.after(at, info(exceeded))
		return w.problems()
	}
	if p := look(7); len(p) != 0 { // of a former process
		t.Errorf("problems %v at the first look", p)
	}
	if p := look(7); len(p) != 0 {
		t.Errorf("problems %v without any above the limit", p)
	}
	p := look(12)
	if len(p) != 2 || p[0].Severity != problem.SeverityWarning ||
		!strings.HasPrefix(p[0].Text, "port alice exceeds its limit of broadcast frames flooded (1000/s): 5 refused in 10s: ") ||
		!strings.HasPrefix(p[1].Text, "segment blue exceeds its limit of half-open connections (5): 10 would be evicted or refused in 10s: ") ||
		!strings.Contains(p[1].Text, "limits.halfOpen;") {
		t.Errorf("problems %v", p)
	}
	for range endAfter - 1 {
		if p := look(12); len(p) != 2 {
			t.Errorf("problems %v, want them to last a while", p)
		}
	}
	if p := look(13); len(p) != 2 || !strings.Contains(p[0].Text, " 1 refused ") {
		t.Errorf("problems %v, want the last interval's", p)
	}
	for range endAfter {
		p = look(13)
	}
	if len(p) != 0 {
		t.Errorf("problems %v after three quiet intervals", p)
	}
	if p := look(3); len(p) != 0 { // the port is another
		t.Errorf("problems %v of a counter that began anew", p)
	}
}

// Status names some limits, and how many more there are.
func TestManyLimitAlarms(t *testing.T) {
	var before, now []api.LimitInfo
	for i := range 30 {
		l := api.LimitInfo{Kind: "port", Owner: fmt.Sprint("p", i), Limit: "macs", Unit: "entries", Mode: "enforce"}
		before = append(before, l)
		l.Exceeded = 1
		now = append(now, l)
	}
	p := limitWatch{}.after(time.Unix(10, 0), before).after(time.Unix(20, 0), now).problems()
	if len(p) != mostLimitProblems+1 || !strings.HasPrefix(p[mostLimitProblems].Text, "limits: 20 further limits") {
		t.Errorf("%d problems, the last is %v", len(p), p[len(p)-1])
	}
}
