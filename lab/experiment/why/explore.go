package why

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/lab/experiment/why/cause"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/turns"
)

// What is measured of each path before anything is flipped.
const (
	looks      = 3 // slices of TCP, and of round trips
	probeFlows = 1
	lossTime   = 5 * time.Second
	lossSize   = 18     // bytes of a datagram
	lossRate   = 14.4e6 // bits a second in frames: some 20,000 of these datagrams, few enough for a slow path
)

// explore reads evidence, proposes causes, and decides what is measured.
func (r *run) explore(ctx context.Context, s *turns.Sessions, res *result.Result) error {
	e, err := r.read(ctx, s)
	if err != nil {
		return err
	}
	r.kind = decisive(e)
	note(res, r.Path, e)
	for i, c := range cause.Propose(e) {
		found := result.Cause{Setting: c.Setting, Object: c.Object, Why: c.Why, Commands: c.Commands()}
		if r.may(c) {
			r.candidates = append(r.candidates, candidate{c, i + 1})
			found.Target, found.Against = r.targetOf([]int{i + 1}), r.targetOf(nil)
		}
		res.Causes = append(res.Causes, found)
	}
	res.Targets = append(res.Targets, r.described(res)...)
	return nil
}

// note writes down what was found before anything was flipped.
func note(res *result.Result, paths []turns.Path, e cause.Evidence) {
	figures := []cause.Figures{e.Overlay}
	if e.Plain != nil {
		figures = append(figures, *e.Plain)
	}
	for i, f := range figures {
		text := fmt.Sprintf("%.3g Gbit/s, %.3g µs, %.3g of a million datagrams lost", f.Gbits, f.RRMicros, f.LossPPM)
		if f.MTU > 0 {
			text += fmt.Sprintf(", packets of %d bytes arrive", f.MTU)
		}
		res.Parameters["before, "+paths[i].Name] = result.Words(text)
	}
	for _, role := range []string{cause.Client, cause.Server} {
		for i, what := range e.Ends[role].Kernel.Unknown {
			res.Parameters[fmt.Sprintf("unknown %d, %s", i+1, role)] = result.Words(what)
		}
	}
}

// decisive is the case that is measured: transfers, unless these lose little against the path beside it and round trips are much worse. Round
// trips vary more, by how soon a core wakes.
func decisive(e cause.Evidence) string {
	const little, muchWorse = 1.1, 1.3
	if e.Plain == nil || e.Plain.RRMicros <= 0 || e.Slowdown() > little {
		return caseTCP
	}
	if e.Overlay.RRMicros > muchWorse*e.Plain.RRMicros {
		return caseRR
	}
	return caseTCP
}

// read measures the paths as they are and reads both ends.
func (r *run) read(ctx context.Context, s *turns.Sessions) (e cause.Evidence, err error) {
	e = cause.Evidence{Ends: map[string]cause.End{}, Port: r.Port}
	var local netip.Addr
	for i, p := range r.Path {
		f, from, err := r.figures(ctx, s, p)
		if err != nil {
			return e, fmt.Errorf("path %s: %w", p.Name, err)
		}
		if i > 0 {
			e.Plain = &f
			break
		}
		e.Overlay, local = f, from
	}
	for role, far := range map[string]netip.Addr{cause.Client: r.Path[0].Addr, cause.Server: local} {
		if e.Ends[role], err = readEnd(ctx, s, role, far); err != nil {
			return e, err
		}
	}
	return e, nil
}

func readEnd(ctx context.Context, s *turns.Sessions, role string, far netip.Addr) (end cause.End, err error) {
	session := s.Of(role)
	examined, err := session.Examine(ctx)
	if err != nil {
		return end, err
	}
	end.Facts = examined.Facts
	if end.Kernel, err = session.Evidence(ctx); err != nil {
		return end, err
	}
	if far.IsValid() {
		end.Device, err = session.Route(ctx, far)
	}
	return end, err
}

// figures are those of a path as it is, and the client's address on it.
func (r *run) figures(ctx context.Context, s *turns.Sessions, p turns.Path) (f cause.Figures, local netip.Addr, err error) {
	if local, err = r.probe(ctx, s, p, &f); err != nil {
		return f, local, err
	}
	if f.Gbits, err = r.look(ctx, s, p, caseTCP, measure.TCPThroughput); err != nil {
		return f, local, err
	}
	if f.RRMicros, err = r.look(ctx, s, p, caseRR, measure.RRP50); err != nil {
		return f, local, err
	}
	lost, err := r.measure(ctx, s, measure.Role{Instrument: measure.RoleUDP, Addr: p.Addr, Size: lossSize, Rate: lossRate, Duration: min(lossTime, r.MaxTime)})
	f.LossPPM, f.Sent = lost.Metrics[measure.UDPLossPPM], 1e3*lost.Metrics[measure.UDPSentRate]*lost.Duration
	return f, local, err
}

// look is the median of some slices.
func (r *run) look(ctx context.Context, s *turns.Sessions, p turns.Path, kind, metric string) (float64, error) {
	var values []float64
	for range looks {
		sample, err := r.measure(ctx, s, measure.Role{Instrument: instrumentOf(kind), Addr: p.Addr, Streams: 1, Size: sizeOf(kind), Duration: turns.LeastSlice, Warmup: turns.WarmUp})
		if err != nil {
			return 0, err
		}
		values = append(values, sample.Metrics[metric])
	}
	slices.Sort(values)
	return values[len(values)/2], nil
}

// probe finds the largest packet that arrives.
func (r *run) probe(ctx context.Context, s *turns.Sessions, p turns.Path, f *cause.Figures) (local netip.Addr, err error) {
	session := s.Of(cause.Client)
	device, err := session.Route(ctx, p.Addr)
	if err != nil {
		return local, err
	}
	for _, i := range session.Hello.Interfaces {
		if i.Name == device {
			f.SentMTU = i.MTU
		}
	}
	role := measure.Role{Instrument: measure.RoleSize, Addr: p.Addr, Port: r.Port, Size: f.SentMTU, Flows: probeFlows}
	trial, err := s.Run(ctx, cause.Client, cause.Server, role)
	if err != nil {
		return local, err
	}
	size, err := measure.ReadSize(trial.Client)
	if err != nil || len(size.Flows) == 0 {
		return local, err
	}
	f.MTU = size.Flows[0].Largest
	return size.Flows[0].Local, nil
}
