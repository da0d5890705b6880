package apiserver

import (
	"fmt"
	"net/http"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/metrics"
)

// HealthMetrics are those of conditions.
func HealthMetrics(h Health, p *metrics.Page) {
	conditions, ready := h.Conditions(), true
	for _, c := range conditions {
		ready = ready && c.OK
	}
	p.Family(metrics.Gauge, "selvage_ready", "1 while the edge does all that it is to do, as /readyz says.")
	p.Flag(ready)
	p.Family(metrics.Gauge, "selvage_ready_condition", "1 while the condition for being ready holds.")
	for _, c := range conditions {
		p.Flag(c.OK, "condition", c.Name)
	}
}

// stuckAfter is how long the loop of an edge may not turn before the process is taken for stuck. Tables of a hundred
// thousand rules take seconds.
const stuckAfter = time.Minute

// Health is what an edge says of itself without being asked. Its methods wait for nothing.
type Health interface {
	// LastTurn is when the loop of the edge turned last.
	LastTurn() time.Time
	// Conditions are what it takes to be ready.
	Conditions() []api.HealthCheck
}

// healthHandler says whether the process works.
func healthHandler(h Health) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !isRead(w, r) {
			return
		}
		since := time.Since(h.LastTurn())
		check := api.HealthCheck{Name: "loop", OK: since < stuckAfter, Message: fmt.Sprintf("turned %s ago", since.Round(time.Millisecond))}
		if !check.OK {
			check.Message += ": restart the edge, its data path goes on meanwhile"
		}
		answerHealth(w, r, []api.HealthCheck{check})
	}
}

// readyHandler says whether the edge does all that it is to do.
func readyHandler(h Health) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if isRead(w, r) {
			answerHealth(w, r, h.Conditions())
		}
	}
}

// answerHealth answers in one word, with the checks that failed, or with ?verbose in JSON with all.
func answerHealth(w http.ResponseWriter, r *http.Request, checks []api.HealthCheck) {
	info, code := api.HealthInfo{Status: api.HealthOK, Checks: checks}, http.StatusOK
	text := ""
	for _, c := range checks {
		if !c.OK {
			info.Status, code = api.HealthFailed, http.StatusServiceUnavailable
			text += fmt.Sprintf("%s: %s\n", c.Name, c.Message)
		}
	}
	w.Header().Set("Cache-Control", "no-store")
	if r.URL.Query().Has(api.ArgVerbose) {
		api.Answer(w, code, info)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	fmt.Fprintf(w, "%s\n%s", info.Status, text)
}
