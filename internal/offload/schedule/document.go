package schedule

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/offload"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// Info is nil where nothing is probed.
func (o *Probes) Info(pair overlay.Pair, config overlay.Edge) *api.OffloadInfo {
	if config.Underlay.OffloadProbe == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.paths[pair]
	if p == nil {
		return nil
	}
	info := &api.OffloadInfo{
		Failed: p.failed, Pending: p.asked || o.pending == pair, Why: p.failed,
		Changes: []offload.Change{}, Trials: []offload.Trial{},
	}
	if p.result == nil {
		if info.Why == "" {
			info.Why = "not probed yet"
		}
		return info
	}
	r := p.result
	info.Mode, info.Changes, info.Why, info.Wrong, info.When = r.Mode.Name, r.Mode.Changes, r.Why, r.Wrong, r.When
	info.Identity, info.Trials = r.Identity, r.Trials
	info.Applied = r.Mode.Name == offload.AsIs ||
		config.Underlay.OffloadProbe.Apply && offload.Unite(o.byInterface()[r.Interface]).Name == r.Mode.Name
	return info
}

// Problems are paths on which the offloads that are in force damage tunnels.
func (o *Probes) Problems(config overlay.Edge) (problems []problem.Problem) {
	o.mu.Lock()
	pairs := slices.SortedFunc(maps.Keys(o.paths), overlay.Pair.Compare)
	o.mu.Unlock()
	for _, pair := range pairs {
		info := o.Info(pair, config)
		switch {
		case info == nil || info.Mode == "":
		case info.Wrong:
			problems = append(problems, problem.Error("tunnels to %s: %s", pair.Remote, info.Why))
		case !info.Applied && info.Trials[0].Fault() != "":
			problems = append(problems, problem.Error("tunnels to %s: %s: mode %s is right; set spec.underlay.offloadProbe.apply, or change %s yourself",
				pair.Remote, info.Trials[0].Fault(), info.Mode, featureNames(info.Changes)))
		}
	}
	return problems
}

func featureNames(changes []offload.Change) (text string) {
	for i, c := range changes {
		if i > 0 {
			text += ", "
		}
		text += c.Feature
	}
	return text
}

// Ask has the paths to a remote be probed, by its name or an address, or all for "".
func (o *Probes) Ask(remote string) error {
	now := o.options.Edge.Snapshot()
	config := now.Config
	if config.Underlay.OffloadProbe == nil {
		return errors.New("this edge probes no offloads: configure spec.underlay.offloadProbe, on all edges")
	}
	paths, found := o.candidates(now), false
	o.mu.Lock()
	for _, p := range paths {
		known := o.paths[p.Pair]
		if known == nil {
			continue
		}
		if remote == "" || remote == config.Remote(p.Remote).Name || isAddressOf(config.Remote(p.Remote), remote) {
			known.asked, known.due, found = true, time.Time{}, true
		}
	}
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default: // there is a mark
	}
	if !found && remote != "" {
		return fmt.Errorf("there is no path to a remote %q now: see `selvage teps`", remote)
	}
	return nil
}

func isAddressOf(r overlay.Remote, text string) bool {
	addr, err := netip.ParseAddr(text)
	return err == nil && slices.Contains(r.Addrs, addr)
}
