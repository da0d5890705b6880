package paths

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/turns"
)

// ends are the sessions of a run.
type ends struct {
	client, server *agent.Session
	watched        []*agent.Session
}

func (e ends) all() []*agent.Session {
	return append([]*agent.Session{e.client, e.server}, e.watched...)
}

// lost is why a connection has ended, or nil.
func (e ends) lost() error {
	for _, s := range e.all() {
		if err := s.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Roles of places, in the order of ends.
const (
	roleClient = "client"
	roleServer = "server"
)

func roleOf(i int) string {
	switch i {
	case 0:
		return roleClient
	case 1:
		return roleServer
	}
	return fmt.Sprintf("watch %d", i-1)
}

// Metrics of the cores, beside measure's.
const (
	busyCores   = "_cpu"        // cores busy, of the place's
	secondsByGB = "_cpu_per_gb" // CPU seconds a gigabyte (10⁹ bytes) of payload
	loadRate    = "load_gbps"   // what bulk transfers moved meanwhile
	moved       = "moved_gb"    // payload that arrived, slow start and all (10⁹ bytes)
)

// cpuMetric is a metric of a role's cores.
func cpuMetric(role, metric string) string {
	if role != roleClient && role != roleServer {
		role = "watch_" + role[len("watch "):]
	}
	return role + metric
}

// roles are the instruments of a case, of which the first gives the figures.
func (c *Command) roles(name string, path turns.Path) []measure.Role {
	role := measure.Role{Addr: path.Addr, Port: c.Port, Duration: c.Slice, Rate: int64(c.MaxRate)}
	switch name {
	case caseTCP, caseReverse:
		role.Instrument, role.Streams, role.Reverse = measure.RoleBulk, c.Streams, name == caseReverse
		role.Duration += turns.WarmUp
	case caseRR, caseCRR:
		role.Instrument, role.Size, role.Warmup = name, 1, turns.WarmUp
	case caseUDP:
		role.Instrument, role.Size = measure.RoleUDP, 18
	case caseLoad:
		load := role
		load.Instrument, load.Streams, load.Port, load.Duration = measure.RoleBulk, c.Streams, c.Port+1, turns.WarmUp+c.Slice+loadMargin
		role.Instrument, role.Size, role.Warmup = measure.RoleRR, 1, turns.WarmUp
		return []measure.Role{role, load}
	}
	return []measure.Role{role}
}

// slice measures a case over a path once.
func (c *Command) slice(ctx context.Context, e ends, name string, path turns.Path) (result.Sample, error) {
	roles := c.roles(name, path)
	t, err := runTrial(ctx, e, roles, nil)
	if err != nil {
		return result.Sample{}, err
	}
	s, err := t.sample(roles)
	s.Case, s.Target = name, path.Name
	return s, err
}

// trial is one run of instruments: what both ends printed, and what each place did.
type trial struct {
	client, server []json.RawMessage // of each instrument
	watched        []agent.Watched   // of each place
}

// runTrial starts the servers, then the clients with all watches and what else is to be done at each
// place for that long, and sends nothing more until they have ended.
func runTrial(ctx context.Context, e ends, roles []measure.Role, besides func(context.Context, int, *agent.Session, time.Duration) error) (*trial, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &trial{client: make([]json.RawMessage, len(roles)), server: make([]json.RawMessage, len(roles)), watched: make([]agent.Watched, len(e.all()))}
	var servers []*agent.Server
	endAll := func() error {
		var errs []error
		for _, s := range servers {
			errs = append(errs, s.End(ctx))
		}
		return errors.Join(errs...)
	}
	for _, role := range roles {
		server, err := e.server.Serve(ctx, role)
		if err != nil {
			return nil, errors.Join(err, endAll())
		}
		servers = append(servers, server)
	}
	duration := roles[0].Warmup + roles[0].Duration
	var errs []error
	var mu sync.Mutex
	var wait sync.WaitGroup
	run := func(f func() error) {
		wait.Go(func() {
			if err := f(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	for i, s := range e.all() {
		run(func() (err error) { t.watched[i], err = s.Watch(ctx, duration); return err })
		if besides != nil {
			run(func() error { return besides(ctx, i, s, duration) })
		}
	}
	for i, role := range roles {
		run(func() (err error) { t.client[i], err = e.client.Run(ctx, role); return err })
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, endAll())
	}
	for i, role := range roles {
		var err error
		if role.Instrument == measure.RoleBulk || role.Instrument == measure.RoleUDP {
			t.server[i], err = servers[i].Collect(ctx)
		} else {
			err = servers[i].End(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

// sample reads what the instruments printed.
func (t *trial) sample(roles []measure.Role) (s result.Sample, err error) {
	bytes := int64(0)
	switch role := roles[0]; role.Instrument {
	case measure.RoleBulk:
		s, bytes, err = t.bulk(role, 0)
	case measure.RoleRR:
		s, err = turns.SampleOf(measure.ReadRR(role, t.client[0]))
	case measure.RoleCRR:
		s, err = turns.SampleOf(measure.ReadCRR(role, t.client[0]))
	default:
		s, err = turns.UDPSample(role, t.client[0], t.server[0])
	}
	if err != nil {
		return s, err
	}
	if len(roles) > 1 {
		load, _, err := t.bulk(roles[1], 1)
		if err != nil {
			return s, err
		}
		s.Metrics[loadRate] = load.Metrics[measure.TCPThroughput]
	}
	t.addUses(&s, bytes)
	return s, nil
}

// bulk is a transfer's sample, without its slow start, and how many bytes it moved in all.
func (t *trial) bulk(role measure.Role, i int) (s result.Sample, bytes int64, err error) {
	source, sink := t.client[i], t.server[i]
	if role.Reverse {
		source, sink = sink, source
	}
	bulk, err := measure.ReadBulk(role, source, sink)
	if err != nil {
		return s, 0, err
	}
	s = bulk.Sample()
	if s.Metrics[measure.TCPThroughput] == 0 {
		return s, 0, fmt.Errorf("TCP moved nothing in %s, although it could connect: packets of full size are lost on this path (a black hole); selvage lab mtu finds where", role.Duration)
	}
	s.Metrics[measure.TCPThroughput] = bulk.Steady(turns.WarmUp)
	delete(s.Metrics, measure.CPUPerGB)
	for _, n := range bulk.Received {
		bytes += n
	}
	s.Metrics[moved] = float64(bytes) / 1e9
	return s, bytes, nil
}

// addUses adds how many cores each place kept busy, what was lost there, and where a hypervisor took
// most of the cores.
func (t *trial) addUses(s *result.Sample, bytes int64) {
	s.Metrics[measure.CPUSteal] = 0
	for i, w := range t.watched {
		role := roleOf(i)
		s.Uses = append(s.Uses, result.Use{Role: role, CPU: w.CPU.Cores, Drops: w.Lost()})
		s.Metrics[cpuMetric(role, busyCores)] = w.CPU.Busy / w.Duration.Seconds()
		s.Metrics[measure.CPUSteal] = max(s.Metrics[measure.CPUSteal], w.CPU.Steal)
		if bytes > 0 {
			s.Metrics[cpuMetric(role, secondsByGB)] = w.CPU.Busy / (float64(bytes) / 1e9)
		}
	}
}

// rest is how long each slice takes besides measuring, before any was measured.
const rest = 300 * time.Millisecond
