package edge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/problem"
)

// underlayPatience is how long a start waits for an interface of the underlay: who waits for the start may be the one who
// makes it.
const underlayPatience = 30 * time.Second

// turned tells the supervisor that the loop turns, and when the data path forwards.
func (e *edge) turned() {
	s := e.opts.Supervisor
	s.Turned(time.Now())
	if s.IsReady() {
		return
	}
	if e.forwards() {
		s.Ready(e.inOneLine())
	}
}

// forwards says whether the data path has its tables, and an interface that tunnels may use.
func (e *edge) forwards() bool {
	if e.faults.Of(observeHost) != nil || e.faults.Of(applyTables) != nil {
		return false
	}
	there := func(name string) bool { _, is := e.state.hostState.Links[name]; return is }
	return slices.ContainsFunc(e.state.config.Underlay.Interfaces, there) || time.Since(e.started) > underlayPatience
}

// inOneLine is how the edge does.
func (e *edge) inOneLine() string {
	e.state.mu.RLock()
	defer e.state.mu.RUnlock()
	problems, config := e.allProblems(), e.state.config
	line := fmt.Sprintf("%s: %d segments, %d ports", strings.ToUpper(string(problem.Sum(problems))), len(config.Segments), len(config.Ports))
	for _, severity := range []problem.Severity{problem.SeverityError, problem.SeverityWarning} {
		i := slices.IndexFunc(problems, func(p problem.Problem) bool { return p.Severity == severity })
		if i >= 0 {
			return fmt.Sprintf("%s; %d problems, the first: %s", line, len(problems), problems[i].Text)
		}
	}
	return line
}
