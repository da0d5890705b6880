// Package schedule decides when the offloads of which path are probed, keeps what was found, and
// answers the probes of remotes.
//
// Its one invariant: one probe runs at a time, and what it sets of an interface is undone when it
// ends, however it ends.
//
// Do not use it to judge what a probe measured (package offload), nor to change a host: the edge
// does so, as Wanted says.
package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/offload"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
)

const (
	// lookEvery is how often drivers are compared with what results are of. A change of
	// offloads is an event of the host, after which a probe falls due at once.
	lookEvery = 10 * time.Second
	// A probe that could not be had is tried again after tryAgain, then after twice the
	// time, up to tryAgainMost. A remote that is busy is asked again after askBusyAgain.
	tryAgain, tryAgainMost = 2 * time.Second, 10 * time.Minute
	askBusyAgain           = 1500 * time.Millisecond

	answerProbes   = "answer offload probes"
	rememberProbes = "save the results of offload probes"
	lookAtDrivers  = "check the drivers of the underlay"
)

// IsMinor reports whether a fault is of probes alone, with which packets still go where they should.
func IsMinor(what string) bool {
	return what == answerProbes || what == rememberProbes || what == lookAtDrivers
}

// Edge is whose underlay is probed.
type Edge interface {
	// Snapshot is the edge as of now.
	Snapshot() Snapshot
	// SetOffloads makes the offloads of the host be as Wanted says.
	SetOffloads() error
	// Enter has the calling thread be in the network namespace of the edge.
	Enter() error
}

// Snapshot is what decides which paths there are to probe.
type Snapshot struct {
	Config overlay.Edge
	Host   host.State
	MTUs   map[overlay.Pair]int // that were found, in bytes of an IP packet
}

// Options are what probes need.
type Options struct {
	Edge Edge
	Log  *slog.Logger
	// Report keeps an error as a problem until it is called with nil.
	Report func(what string, err error)
	// HostFault names the fault of a host that does not let itself be changed.
	HostFault string
}

// Probes are what is known of the offloads of underlay interfaces, and what is set of them.
type Probes struct {
	options Options
	turn    offload.Turn
	wake    chan struct{} // has a mark when there is something to look at
	file    string
	mu      sync.Mutex
	paths   map[overlay.Pair]*probedPath
	trial   *trial // the probe that runs
	// pending is the path that is being probed, until what was found is in force.
	pending overlay.Pair
	// Of the goroutine that probes:
	responders map[netip.Addr]*offload.Responder
	port       uint16
}

// New knows of no path.
func New(o Options) *Probes {
	return &Probes{
		options: o, wake: make(chan struct{}, 1), paths: make(map[overlay.Pair]*probedPath), responders: make(map[netip.Addr]*offload.Responder),
	}
}

// probedPath is what is known of one path.
type probedPath struct {
	result *offload.Result // nil before the first
	asked  bool            // somebody waits for a probe
	failed string          // why the last probe found nothing, "" when it did
	pause  time.Duration   // until the next, of one that failed
	due    time.Time       // of the next, when there is reason for one
}

// trial is an interface that is being probed, and how its offloads are for now.
type trial struct {
	name string
	set  []host.Offload
}

// Wanted are the offloads that shall differ from the operator's: those of the probe that runs
// and, where results are applied, the best of other interfaces.
func (o *Probes) Wanted(p *overlay.OffloadProbe) (list []host.Offload) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p == nil {
		return nil
	}
	if o.trial != nil {
		list = append(list, o.trial.set...)
	}
	if !p.Apply {
		return list
	}
	for name, results := range o.byInterface() {
		if o.trial == nil || o.trial.name != name {
			list = append(list, offload.Unite(results).Offloads(name)...)
		}
	}
	return list
}

// byInterface are the results of all paths; mu is held.
func (o *Probes) byInterface() map[string][]offload.Result {
	all := make(map[string][]offload.Result)
	for _, p := range o.paths {
		if p.result != nil {
			all[p.result.Interface] = append(all[p.result.Interface], *p.result)
		}
	}
	return all
}

// Run answers the probes of remotes and probes them, until ctx ends.
func (o *Probes) Run(ctx context.Context) {
	runtime.LockOSThread() // for good: sockets are opened here
	defer func() {
		for _, r := range o.responders {
			r.Close()
		}
	}()
	if err := o.options.Edge.Enter(); err != nil {
		o.options.Report(answerProbes, err)
		return
	}
	for ctx.Err() == nil {
		o.answer()
		wait := o.probeDue(ctx)
		select {
		case <-ctx.Done():
		case <-o.wake:
		case <-time.After(wait):
		}
	}
}

// probeDue probes what is due, and says how long nothing else is.
func (o *Probes) probeDue(ctx context.Context) time.Duration {
	for {
		paths := o.candidates(o.options.Edge.Snapshot())
		if len(paths) == 0 {
			return lookEvery
		}
		reasons, err := o.reasons(paths)
		o.options.Report(lookAtDrivers, err)
		pair, wait := o.next(reasons, time.Now())
		if wait > 0 || ctx.Err() != nil {
			return wait
		}
		i := slices.IndexFunc(paths, func(p offload.Path) bool { return p.Pair == pair })
		o.probe(ctx, paths[i], reasons[pair])
	}
}

// candidates are the paths that tunnels may take now, none where nothing is to be probed.
func (o *Probes) candidates(s Snapshot) (paths []offload.Path) {
	p := s.Config.Underlay.OffloadProbe
	if p == nil {
		return nil
	}
	pairs := plan.Pairs(s.Config)
	o.keep(pairs)
	for _, pair := range pairs {
		way, ok := plan.PathOf(s.Config, s.Host, pair)
		if !ok || way.NextMAC == (overlay.MAC{}) {
			continue
		}
		path := offload.Path{
			Pair: pair, Interface: way.Interface, Ifindex: way.Ifindex, MTU: way.MTU, Port: p.Port, TunnelPort: p.Port,
		}
		if mtu, ok := s.MTUs[pair]; ok {
			path.MTU = min(path.MTU, mtu)
		}
		path.TunnelPort, path.Checksum = tunnelOf(s.Config, pair.Remote, p.Port)
		paths = append(paths, path)
	}
	return paths
}

// tunnelOf is how VXLAN tunnels to a remote address look. Where there are none they go to
// another port, which no data path takes for its own.
func tunnelOf(config overlay.Edge, addr netip.Addr, other uint16) (port uint16, checksum bool) {
	port = other
	first := config.Remote(addr).Addrs[0]
	for _, s := range plan.Segments(config) {
		if s.Tunnel.Encapsulation == overlay.VXLAN && plan.SendsTo(s, first) {
			if port == other {
				port = s.Tunnel.UDPPort
			}
			checksum = checksum || s.Tunnel.UDPChecksum
		}
	}
	return port, checksum
}

// keep forgets all paths but these, and begins to know those that are new.
func (o *Probes) keep(pairs []overlay.Pair) {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.paths, func(pair overlay.Pair, _ *probedPath) bool { return !slices.Contains(pairs, pair) })
	for _, pair := range pairs {
		if o.paths[pair] == nil {
			o.paths[pair] = &probedPath{}
		}
	}
}

// reasons says why each path is to be probed; those that need not are missing.
func (o *Probes) reasons(paths []offload.Path) (map[overlay.Pair]string, error) {
	adapters, err := host.OpenAdapters()
	if err != nil {
		return nil, err
	}
	defer adapters.Close()
	reasons := make(map[overlay.Pair]string)
	var errs []error
	for _, p := range paths {
		now, err := offload.Identify(adapters, p.Interface)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		o.mu.Lock()
		if known := o.paths[p.Pair]; known != nil && known.reason(p.Interface, now) != "" {
			reasons[p.Pair] = known.reason(p.Interface, now)
		}
		o.mu.Unlock()
	}
	return reasons, errors.Join(errs...)
}

// reason is why the path is to be probed, "" if it need not.
func (p *probedPath) reason(name string, now offload.Identity) string {
	switch {
	case p.asked:
		return "asked for"
	case p.result == nil:
		return "never probed"
	case p.result.Interface != name:
		return fmt.Sprintf("it leaves by %s instead of %s", name, p.result.Interface)
	case p.result.Identity.Kernel != now.Kernel:
		return fmt.Sprintf("kernel %s instead of %s", now.Kernel, p.result.Identity.Kernel)
	case p.result.Identity.Driver != now.Driver:
		return fmt.Sprintf("driver or firmware of %s changed", name)
	}
	return ""
}

// next is the path that is to be probed now, or how long there is none.
func (o *Probes) next(reasons map[overlay.Pair]string, now time.Time) (next overlay.Pair, wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	wait = lookEvery
	for _, pair := range slices.SortedFunc(maps.Keys(reasons), overlay.Pair.Compare) {
		p := o.paths[pair]
		if p == nil { // a reload took it away
			continue
		}
		if left := p.due.Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		return pair, 0
	}
	return next, wait
}

// probe probes one path and takes the result over.
func (o *Probes) probe(ctx context.Context, path offload.Path, why string) {
	o.options.Log.Info("probing offloads", "interface", path.Interface, "remote", path.Remote, "why", why)
	o.begin(path)
	result, err := offload.Probe(ctx, path, &o.turn, o.set)
	o.end(path.Pair, result, err)
	if ctx.Err() != nil {
		return
	}
	o.options.Report(o.options.HostFault, o.options.Edge.SetOffloads())
	o.settle()
	switch {
	case errors.Is(err, offload.ErrBusy):
	case err != nil:
		o.options.Log.Warn("offloads could not be probed", event.Is(event.OffloadProbe), "interface", path.Interface, "remote", path.Remote, "err", err)
	default:
		o.options.Log.Info("offloads were probed", event.Is(event.OffloadProbe), "interface", path.Interface, "remote", path.Remote, "mode", result.Mode.Name, "why", result.Why)
		o.options.Report(rememberProbes, o.save())
	}
}

func (o *Probes) begin(path offload.Path) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.trial, o.pending = &trial{name: path.Interface}, path.Pair
}

// end takes over what a probe found, or why it did not, for the host to be set so.
func (o *Probes) end(pair overlay.Pair, result offload.Result, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.trial = nil
	p := o.paths[pair]
	switch {
	case p == nil: // a reload took it away
	case errors.Is(err, offload.ErrBusy): // who asked waits on
		p.due = time.Now().Add(askBusyAgain + rand.N(askBusyAgain))
	case err != nil:
		p.failed, p.asked = err.Error(), false
		p.pause = min(max(tryAgain, 2*p.pause), tryAgainMost)
		p.due = time.Now().Add(p.pause)
	default:
		p.result, p.failed, p.asked, p.pause = &result, "", false, 0
	}
}

// settle says that what a probe found is in force.
func (o *Probes) settle() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending = overlay.Pair{}
}

// set is the Setter of the probe that runs.
func (o *Probes) set(ctx context.Context, set []host.Offload) error {
	o.mu.Lock()
	o.trial.set = set
	o.mu.Unlock()
	if err := o.options.Edge.SetOffloads(); err != nil {
		return err
	}
	return ctx.Err()
}

// EndTrial ends the probe that runs: what it set is wanted no more.
func (o *Probes) EndTrial() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.trial = nil
}
