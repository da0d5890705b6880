package edge

import (
	"github.com/selvage/selvage/internal/apiserver"
	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/metrics"
	"github.com/selvage/selvage/internal/overlay"
)

// prepareListeners has listeners be ready for a configuration, or keeps those that are.
func (e *edge) prepareListeners(next *overlay.HTTP) error {
	if e.listeners.IsFor(next) {
		e.listeners.Abort()
		return nil
	}
	return e.listeners.Prepare(next)
}

// listen reads files of listeners again, and tries what could not be had: one that cannot keeps no other from coming up. It is
// called by the goroutine of the loop.
func (e *edge) listen() {
	var err error
	if wanted := e.state.configured.HTTP; !e.listeners.IsFor(wanted) || !e.listeners.IsWhole() {
		err = e.listeners.PrepareSome(wanted)
		e.listeners.Commit()
	}
	e.faults.Report(listenProblem, err)
	e.listeners.Look()
}

// readNow is what scrapes read of the process itself.
func (e *edge) readNow(p *metrics.Page) {
	apiserver.HealthMetrics(&e.health, p)
	e.listeners.Metrics(p)
	counts := e.events.Counts()
	p.Family(metrics.Counter, "selvage_event_log_entries_total", "Entries of the event log, by kind.")
	for _, a := range event.Kinds() {
		p.Count(counts[a.Kind], "kind", string(a.Kind))
	}
}
