package edge

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/selvage/selvage/internal/api"
)

// health is what the loop publishes of the edge, for who must not wait for it.
type health struct {
	turned     atomic.Int64 // when the loop turned, in ns since 1970
	conditions atomic.Pointer[[]api.HealthCheck]
	evaluated  time.Time // by the loop: when the conditions were
}

// evaluateEvery is how often at most conditions are evaluated that nothing tells of: each idle tick does.
const evaluateEvery = tickIdle - tickHosts

// Names of conditions.
const (
	conditionDataPath      = "datapath"
	conditionConfiguration = "configuration"
	conditionBGP           = "bgp"
)

// LastTurn implements apiserver.Health.
func (h *health) LastTurn() time.Time { return time.Unix(0, h.turned.Load()) }

// Conditions implements apiserver.Health.
func (h *health) Conditions() []api.HealthCheck {
	if c := h.conditions.Load(); c != nil {
		return *c
	}
	return []api.HealthCheck{{Name: conditionDataPath, Message: "the edge is starting"}}
}

// turn notes that the loop turns.
func (h *health) turn() { h.turned.Store(time.Now().UnixNano()) }

// readiness finds whether an edge is ready. It is asked by the loop.
type readiness struct{ e *edge }

// evaluate publishes the conditions.
func (r readiness) evaluate() {
	e := r.e
	e.health.evaluated = time.Now()
	list := []api.HealthCheck{r.dataPath(), r.configuration()}
	if e.state.configured.BGP != nil {
		list = append(list, r.bgp())
	}
	e.health.conditions.Store(&list)
}

func (r readiness) dataPath() api.HealthCheck {
	c := api.HealthCheck{Name: conditionDataPath, OK: true, Message: "tables are in force"}
	for _, what := range []string{observeHost, applyTables, writeTables} {
		if err := r.e.faults.Of(what); err != nil {
			c.OK, c.Message = false, fmt.Sprintf("%s: %v", what, err)
		}
	}
	return c
}

func (r readiness) configuration() api.HealthCheck {
	if err := r.e.state.left; err != nil {
		return api.HealthCheck{Name: conditionConfiguration, Message: fmt.Sprintf("in force, but for parts: %v", err)}
	}
	return api.HealthCheck{Name: conditionConfiguration, OK: true, Message: "in force, all of it"}
}

func (r readiness) bgp() api.HealthCheck {
	c := api.HealthCheck{Name: conditionBGP}
	b := r.e.bgp.Process()
	if b == nil {
		c.Message = "it is not running: see selvage bgp"
		return c
	}
	established, complete, total := b.State().Settled()
	switch {
	case r.e.bgp.IsSettling():
		c.Message = "routes of the process before stay until all neighbours said all of theirs"
	case established == 0:
		c.Message = fmt.Sprintf("no session with any of %d neighbours: see selvage bgp", total)
	case complete < established:
		c.Message = fmt.Sprintf("%d of %d neighbours have not said all of their routes", established-complete, established)
	default:
		c.OK, c.Message = true, fmt.Sprintf("%d of %d neighbours have a session, and said all of their routes", established, total)
	}
	return c
}
