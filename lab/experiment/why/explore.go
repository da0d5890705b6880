package why

import (
	"cmp"
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
	looks      = 3  // slices of TCP, and of round trips
	probeFlows = 16 // source ports, by which paths of equal cost are chosen
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
		text := fmt.Sprintf("%.3g Gbit/s, %.3g µs", f.Gbits, f.RRMicros)
		if f.Sent > 0 {
			text += fmt.Sprintf(", %.3g of a million datagrams lost", f.LossPPM)
		}
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
	loads := map[string]*cause.Load{cause.Client: {}, cause.Server: {}}
	overlay := looker{r, s, r.Path[0], loads}
	local, err := overlay.figures(ctx, &e.Overlay, true)
	if err == nil && len(r.Path) > 1 {
		e.Plain = &cause.Figures{}
		_, err = looker{r, s, r.Path[1], nil}.figures(ctx, e.Plain, cause.Loses(e.Overlay))
	}
	if err != nil {
		return e, err
	}
	for role, far := range map[string]netip.Addr{cause.Client: r.Path[0].Addr, cause.Server: local} {
		if e.Ends[role], err = readEnd(ctx, s, role, far); err != nil {
			return e, err
		}
	}
	if e.Ends[cause.Server].HasQueues() {
		if err := overlay.spread(ctx); err != nil {
			return e, err
		}
	}
	for role, end := range e.Ends {
		end.Load = *loads[role]
		e.Ends[role] = end
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

// looker measures a path as it is. loads, by role, are what the ends count meanwhile; nil where that is no matter.
type looker struct {
	r     *run
	s     *turns.Sessions
	path  turns.Path
	loads map[string]*cause.Load
}

// figures are those of the path, with its loss if that is to be known, and the client's address on it.
func (l looker) figures(ctx context.Context, f *cause.Figures, loss bool) (local netip.Addr, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("path %s: %w", l.path.Name, err)
		}
	}()
	if local, err = l.probe(ctx, f); err != nil {
		return local, err
	}
	bulk, err := l.look(ctx, caseTCP, measure.TCPThroughput)
	if err != nil {
		return local, err
	}
	f.Gbits, f.MSS = bulk.Metrics[measure.TCPThroughput], int(bulk.Metrics[measure.MSS])
	rr, err := l.look(ctx, caseRR, measure.RRP50)
	f.RRMicros = rr.Metrics[measure.RRP50]
	if err != nil || !loss {
		return local, err
	}
	lost, err := l.measure(ctx, measure.Role{Instrument: measure.RoleUDP, Size: lossSize, Rate: lossRate, Duration: min(lossTime, l.r.MaxTime)})
	f.LossPPM, f.Sent = lost.Metrics[measure.UDPLossPPM], 1e3*lost.Metrics[measure.UDPSentRate]*lost.Duration
	return local, err
}

// measure is one slice, of which the ends' counters are kept.
func (l looker) measure(ctx context.Context, role measure.Role) (result.Sample, error) {
	role.Addr = l.path.Addr
	trial, err := l.r.try(ctx, l.s, role)
	if err != nil {
		return result.Sample{}, err
	}
	for name, load := range l.loads {
		load.Add(trial.Of(name))
	}
	return trial.Sample("")
}

// look is the middle one of some slices, by a metric.
func (l looker) look(ctx context.Context, kind, metric string) (result.Sample, error) {
	var all []result.Sample
	for range looks {
		sample, err := l.measure(ctx, measure.Role{Instrument: instrumentOf(kind), Streams: 1, Size: sizeOf(kind), Duration: turns.LeastSlice, Warmup: turns.WarmUp})
		if err != nil {
			return sample, err
		}
		all = append(all, sample)
	}
	slices.SortFunc(all, func(a, b result.Sample) int { return cmp.Compare(a.Metrics[metric], b.Metrics[metric]) })
	return all[len(all)/2], nil
}

// spread looks which cores take in several streams.
func (l looker) spread(ctx context.Context) error {
	trial, err := l.r.try(ctx, l.s, measure.Role{Instrument: measure.RoleBulk, Addr: l.path.Addr, Streams: cause.SeveralStreams, Duration: turns.LeastSlice, Warmup: turns.WarmUp})
	if err != nil {
		return err
	}
	for name, load := range l.loads {
		load.AddCores(trial.Of(name))
	}
	return nil
}

// probe finds the largest packet that arrives from each of some source ports.
func (l looker) probe(ctx context.Context, f *cause.Figures) (local netip.Addr, err error) {
	session := l.s.Of(cause.Client)
	device, err := session.Route(ctx, l.path.Addr)
	if err != nil {
		return local, err
	}
	for _, i := range session.Hello.Interfaces {
		if i.Name == device {
			f.SentMTU = i.MTU
		}
	}
	trial, err := l.s.Run(ctx, cause.Client, cause.Server, measure.Role{Instrument: measure.RoleSize, Addr: l.path.Addr, Port: l.r.Port, Size: f.SentMTU, Flows: probeFlows})
	if err != nil {
		return local, err
	}
	size, err := measure.ReadSize(trial.Client)
	if err != nil || len(size.Flows) == 0 {
		return local, err
	}
	f.Flows = size.Flows
	for _, flow := range size.Flows {
		if flow.Largest > 0 && (f.MTU == 0 || flow.Largest < f.MTU) {
			f.MTU = flow.Largest
		}
	}
	return size.Flows[0].Local, nil
}
