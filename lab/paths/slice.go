package paths

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
)

// ends are the sessions of a run.
type ends struct {
	client, server *agent.Session
	watched        []*agent.Session
}

func (e ends) all() []*agent.Session {
	return append([]*agent.Session{e.client, e.server}, e.watched...)
}

// Metrics of the cores, beside measure's.
const (
	clientCPU = "client_cpu" // cores busy, of the place's
	serverCPU = "server_cpu"
)

// watchedCPU is that of the i-th place that is watched.
func watchedCPU(i int) string { return fmt.Sprintf("watch_%d_cpu", i+1) }

// slice measures a case over a path once.
func (c *Command) slice(ctx context.Context, e ends, name string, path Path) (result.Sample, error) {
	role := measure.Role{
		Addr: path.Addr, Port: c.Port, Duration: c.Slice, Rate: int64(c.MaxRate),
	}
	switch name {
	case "tcp", "tcp-reverse":
		role.Instrument, role.Streams, role.Reverse = measure.RoleBulk, c.Streams, name == "tcp-reverse"
		role.Duration += warmUp
	case "rr", "crr":
		role.Instrument, role.Size, role.Warmup = name, 1, warmUp
	case "udp":
		role.Instrument, role.Size = measure.RoleUDP, 18
	}
	t, err := runTrial(ctx, e, role)
	if err != nil {
		return result.Sample{}, err
	}
	s, err := t.sample(role)
	if err != nil {
		return s, err
	}
	s.Case, s.Target = name, path.Name
	t.addCPU(&s)
	return s, nil
}

// trial is one run of an instrument: what both ends printed, and what each place did.
type trial struct {
	client, server []byte
	watched        []agent.Watched // client, server, and those that are watched
}

// runTrial starts the server, then the client with all watches, and sends nothing more until
// they have ended.
func runTrial(ctx context.Context, e ends, role measure.Role) (*trial, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server, err := e.server.Serve(ctx, role)
	if err != nil {
		return nil, err
	}
	t := &trial{watched: make([]agent.Watched, len(e.all()))}
	errs := make([]error, len(e.all())+1)
	var wait sync.WaitGroup
	for i, s := range e.all() {
		wait.Go(func() { t.watched[i], errs[i] = s.Watch(ctx, role.Warmup+role.Duration) })
	}
	wait.Go(func() { t.client, errs[len(errs)-1] = e.client.Run(ctx, role) })
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, server.End(ctx))
	}
	switch role.Instrument {
	case measure.RoleBulk, measure.RoleUDP:
		t.server, err = server.Collect(ctx)
	default:
		err = server.End(ctx)
	}
	return t, err
}

// sample reads what the instrument printed.
func (t *trial) sample(role measure.Role) (result.Sample, error) {
	switch role.Instrument {
	case measure.RoleBulk:
		source, sink := t.client, t.server
		if role.Reverse {
			source, sink = sink, source
		}
		bulk, err := measure.ReadBulk(role, source, sink)
		if err != nil {
			return result.Sample{}, err
		}
		s := bulk.Sample()
		s.Metrics[measure.TCPThroughput] = bulk.Steady(warmUp)
		delete(s.Metrics, measure.CPUPerGB)
		return s, nil
	case measure.RoleRR:
		rr, err := measure.ReadRR(role, t.client)
		if err != nil {
			return result.Sample{}, err
		}
		return rr.Sample(), nil
	case measure.RoleCRR:
		crr, err := measure.ReadCRR(role, t.client)
		if err != nil {
			return result.Sample{}, err
		}
		return crr.Sample(), nil
	}
	udp, err := measure.ReadUDP(role, t.client, t.server)
	if err != nil {
		return result.Sample{}, err
	}
	s := udp.Sample()
	s.Metrics[measure.UDPLossPPM] = 1e6 * s.Metrics[measure.UDPLoss]
	return s, nil
}

// addCPU adds how many cores each place kept busy, and where a hypervisor took most of them.
func (t *trial) addCPU(s *result.Sample) {
	s.Metrics[measure.CPUSteal] = 0
	for i, w := range t.watched {
		name := clientCPU
		switch i {
		case 0:
			s.CPU = w.CPU.Cores
		case 1:
			name = serverCPU
		default:
			name = watchedCPU(i - 2)
		}
		s.Metrics[name] = w.CPU.Busy / w.Duration.Seconds()
		s.Metrics[measure.CPUSteal] = max(s.Metrics[measure.CPUSteal], w.CPU.Steal)
		for _, core := range w.CPU.Cores {
			s.Metrics[fmt.Sprintf("%s_%d", name, core.Core)] = core.User + core.System + core.SoftIRQ
		}
	}
}

// rest is how long each slice takes besides measuring, before any was measured.
const rest = 300 * time.Millisecond
