package turns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
)

// Trial is one run of an instrument: what both ends printed, and what each place did meanwhile.
type Trial struct {
	Role           measure.Role
	Client, Server json.RawMessage
	Watched        []agent.Watched // one a place
	roles          []string        // whose they are
}

// Run starts the server, then the client with all watches, and sends nothing more until they have
// ended. client and server are roles.
func (s *Sessions) Run(ctx context.Context, client, server string, role measure.Role) (*Trial, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	far, err := s.Of(server).Serve(ctx, role)
	if err != nil {
		return nil, err
	}
	t := &Trial{Role: role, Watched: make([]agent.Watched, len(s.sessions))}
	errs := make([]error, len(s.sessions)+1)
	var wait sync.WaitGroup
	for i, session := range s.sessions {
		t.roles = append(t.roles, s.rolesOf(i)[0])
		if role.Duration > 0 {
			wait.Go(func() { t.Watched[i], errs[i] = session.Watch(ctx, role.Warmup+role.Duration) })
		}
	}
	wait.Go(func() { t.Client, errs[len(errs)-1] = s.Of(client).Run(ctx, role) })
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, far.End(ctx))
	}
	switch role.Instrument {
	case measure.RoleBulk, measure.RoleUDP:
		t.Server, err = far.Collect(ctx)
	default:
		err = far.End(ctx)
	}
	return t, err
}

// Sample reads what the instrument printed. Names of the places' cores have prefix before them,
// which keeps instruments of one case apart: "rr_client_cpu".
func (t *Trial) Sample(prefix string) (result.Sample, error) {
	s, err := t.read()
	if err == nil {
		t.addCPU(&s, prefix)
	}
	return s, err
}

func (t *Trial) read() (result.Sample, error) {
	switch t.Role.Instrument {
	case measure.RoleBulk:
		source, sink := t.Client, t.Server
		if t.Role.Reverse {
			source, sink = sink, source
		}
		bulk, err := measure.ReadBulk(t.Role, source, sink)
		if err != nil {
			return result.Sample{}, err
		}
		s := bulk.Sample()
		s.Metrics[measure.TCPThroughput] = bulk.Steady(WarmUp)
		delete(s.Metrics, measure.CPUPerGB)
		return s, nil
	case measure.RoleRR:
		return SampleOf(measure.ReadRR(t.Role, t.Client))
	case measure.RoleCRR:
		return SampleOf(measure.ReadCRR(t.Role, t.Client))
	case measure.RoleSize:
		return SampleOf(measure.ReadSize(t.Client))
	}
	return UDPSample(t.Role, t.Client, t.Server)
}

// SampleOf is the sample of a run that an instrument printed, unless that could not be read.
func SampleOf[T interface{ Sample() result.Sample }](run T, err error) (result.Sample, error) {
	if err != nil {
		return result.Sample{}, err
	}
	return run.Sample(), nil
}

// UDPSample is that of small packets one way, with their loss in millionths.
func UDPSample(role measure.Role, client, server json.RawMessage) (result.Sample, error) {
	s, err := SampleOf(measure.ReadUDP(role, client, server))
	if err == nil {
		s.Metrics[measure.UDPLossPPM] = 1e6 * s.Metrics[measure.UDPLoss]
	}
	return s, err
}

// Of is what the place of a role did meanwhile.
func (t *Trial) Of(role string) (w agent.Watched) {
	if at := slices.Index(t.roles, role); at >= 0 {
		w = t.Watched[at]
	}
	return w
}

// CPUMetric is how many cores a role's place kept busy; with a core's number, that one.
func CPUMetric(prefix, role string) string { return prefix + role + "_cpu" }

// CoreMetric is one core of CPUMetric, as its busy share.
func CoreMetric(prefix, role string, core int) string {
	return fmt.Sprintf("%s_%d", CPUMetric(prefix, role), core)
}

// addCPU adds how many cores each place kept busy, and where a hypervisor took most of them.
func (t *Trial) addCPU(s *result.Sample, prefix string) {
	s.CPU = nil // of this machine, or of nobody
	s.Metrics[measure.CPUSteal] = 0
	for i, w := range t.Watched {
		if w.Duration == 0 { // it was not watched
			continue
		}
		role := t.roles[i]
		s.Metrics[CPUMetric(prefix, role)] = w.CPU.Busy / w.Duration.Seconds()
		s.Metrics[measure.CPUSteal] = max(s.Metrics[measure.CPUSteal], w.CPU.Steal)
		for _, core := range w.CPU.Cores {
			s.Metrics[CoreMetric(prefix, role, core.Core)] = core.User + core.System + core.SoftIRQ
		}
	}
}
