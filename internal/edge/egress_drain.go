package edge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/replace"
)

const (
	// DefaultDrain is how long a drain waits for connections to end.
	DefaultDrain = 5 * time.Minute
	// drainIdle is for how long no session may have had a packet before a drain is over. Data
	// packets are known with a delay of up to 10 s.
	drainIdle = 20 * time.Second
)

// drainHandler serves the wish that this edge gives its work away.
func (e *edge) drainHandler(w http.ResponseWriter, r *http.Request) {
	if !isChange(w, r) {
		return
	}
	timeout := DefaultDrain
	if text := r.URL.Query().Get(api.ArgTimeout); text != "" {
		var err error
		if timeout, err = time.ParseDuration(text); err != nil || timeout < 0 {
			reply(w, nil, api.BadRequest{Err: fmt.Errorf("%s: %q is not a duration of 0s or more, such as 5m", api.ArgTimeout, text)})
			return
		}
	}
	now := time.Now()
	document, err := e.setDrain(&drain{Asked: now, Deadline: now.Add(timeout), Done: timeout == 0})
	reply(w, document, err)
}

// undrainHandler serves its end.
func (e *edge) undrainHandler(w http.ResponseWriter, r *http.Request) {
	if !isChange(w, r) {
		return
	}
	document, err := e.setDrain(nil)
	reply(w, document, err)
}

// isChange refuses a request that is not to change something.
func isChange(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodPost {
		return true
	}
	w.Header().Set("Allow", http.MethodPost)
	answer(w, http.StatusMethodNotAllowed, api.Refusal{Error: r.Method + " is not allowed here, use POST"})
	return false
}

// setDrain makes the wish known, and says how egress is then.
func (e *edge) setDrain(d *drain) (api.EgressInfo, error) {
	_, err := read(e, "egress", func() (struct{}, error) {
		switch {
		case !isGateway(e.config):
			return struct{}{}, api.BadRequest{Err: errors.New("this edge is not a member of any group in spec.egress.gateways: there is nothing to drain")}
		case d != nil && e.config.Underlay.Liveness == nil:
			return struct{}{}, api.BadRequest{Err: errors.New("other edges would not notice the drain: configure spec.underlay.bfd, which tells them")}
		}
		s := &e.pathSelector
		s.mu.Lock()
		s.gateways.drain = d
		s.mu.Unlock()
		return struct{}{}, nil
	})
	if err != nil {
		return api.EgressInfo{}, err
	}
	if d == nil {
		e.log.Info("egress drain ended")
	} else {
		e.log.Info("egress drain started", "deadline", d.Deadline)
	}
	e.steer()
	e.saveGateways()
	return e.egressDocument()
}

// watchDrain ends a drain when no connection uses this edge any more.
func (e *edge) watchDrain() error {
	s := &e.pathSelector
	s.mu.Lock()
	d := s.gateways.drain
	s.mu.Unlock()
	if d == nil || d.Done {
		return nil
	}
	active, err := read(e, "NAT sessions", func() (n int, err error) {
		return n, e.dp.NAT.EachNATSession(func(b *datapath.NATSession) bool {
			if !b.Replica && !b.Mapping && b.IdleNS < uint64(drainIdle) {
				n++
			}
			return true
		})
	})
	if err != nil {
		return err
	}
	now := time.Now()
	s.mu.Lock()
	if s.gateways.drain == d {
		s.gateways.active = active
		if active == 0 && now.Sub(d.Asked) >= drainIdle || !now.Before(d.Deadline) {
			done := *d
			done.Done = true
			s.gateways.drain = &done
			wake(s.gateways.nudged)
		}
	}
	s.mu.Unlock()
	return nil
}

// remembered is what an edge wants to know of gateways after a restart of its process.
type remembered struct {
	Drain *drain       `json:"drain,omitempty"`
	Gone  []netip.Addr `json:"gone,omitempty"`
}

// saveGateways writes it where it changed.
func (e *edge) saveGateways() {
	s := &e.pathSelector
	s.mu.Lock()
	now := remembered{Drain: s.gateways.drain}
	for member, j := range s.gateways.gatewayStates {
		if j.State == nat.Gone && member != self(s.snapshot.config) {
			now.Gone = append(now.Gone, member)
		}
	}
	slices.SortFunc(now.Gone, netip.Addr.Compare)
	same, file := reflect.DeepEqual(now, s.gateways.saved), s.gateways.file
	s.gateways.saved = now
	s.mu.Unlock()
	if !same {
		e.reportProblem(rememberGateways, errors.Join(writeJSON(file, now), saveDrain(e.drainFile(), now.Drain)))
	}
}

// loadGateways reads what a former process wrote, if there was one.
func (e *edge) loadGateways() error {
	file := filepath.Join(e.opts.RuntimeDir, e.config.Name+".egress")
	e.pathSelector.mu.Lock()
	e.pathSelector.gateways.file = file
	e.pathSelector.mu.Unlock()
	var was remembered
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &was)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", file, err)
	}
	kept, rebooted, err := loadDrain(e.drainFile())
	if err != nil {
		return err
	}
	if kept != nil { // otherwise a process of a build that kept none may have one
		was.Drain = kept
	}
	if rebooted {
		e.log.Warn("this gateway was drained before the reboot and stays so: selvage undrain ends that", "asked", was.Drain.Asked)
	}
	s := &e.pathSelector
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gateways.drain, s.gateways.saved = was.Drain, was
	s.gateways.remembered = make(map[netip.Addr]bool)
	for _, member := range was.Gone {
		s.gateways.remembered[member] = e.adopted // a new data path stood still meanwhile
	}
	return nil
}

// writeJSON replaces a file at once.
func writeJSON(path string, document any) error {
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	return replace.File(path, append(text, '\n'))
}
