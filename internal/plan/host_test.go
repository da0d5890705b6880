package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// A host that lacks all is told so once for each object; one that only has not asked for its next hops yet is told nothing.
func TestHostProblems(t *testing.T) {
	e := edge()
	list := HostProblems(e, host.State{})
	text := strings.Join(problem.Texts(list), "\n")
	for _, want := range []string{"eth0", "192.0.2.1", "veth0", "tap1", "192.0.2.2"} {
		if !strings.Contains(text, want) {
			t.Errorf("nothing of %s in\n%s", want, text)
		}
	}
	for i, p := range list {
		if p.Severity != problem.SeverityError || slices.Contains(list[:i], p) {
			t.Errorf("%s: %s", p.Severity, p.Text)
		}
	}
	v := state()
	for pair, path := range v.Routes {
		path.NextMAC = overlay.MAC{}
		v.Routes[pair] = path
	}
	if list := HostProblems(e, v); problem.Count(list, problem.SeverityError) > 0 {
		t.Errorf("a host that has all: %v", list)
	}
}
