package transaction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/apiserver"
	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/live"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
	"github.com/selvage/selvage/internal/revision"
)

// loadLive is the problem of live objects that cannot be read.
const loadLive = "read the live objects"

// start is the configuration to start with, with the live objects that fit it.
func (o Options) start(edge overlay.Edge, r revision.Revision) (Candidate, error) {
	c := Candidate{Edge: edge, Revision: r, left: map[string]error{}}
	set, err := live.StoreOf(o.StateDir, o.RuntimeDir, edge.Name).Load()
	if err != nil {
		c.left[loadLive] = err
	}
	c.live = set
	if err := c.settle(); err != nil {
		return c, err
	}
	compiled, err := c.compile(Candidate{})
	if err == nil || c.live.Len() == 0 {
		return compiled, err
	}
	for _, object := range c.live.Objects() { // together they are too much
		c.left[object.Label()] = err
	}
	c.Edge = edge
	return c.compile(Candidate{})
}

// join makes the edge of c that of its source with its live objects. Those that did not fit before, and ports by aliases,
// may be left out; an error names the others that do not fit.
func (c *Candidate) join(left map[string]error) error {
	c.left = map[string]error{}
	if err := left[loadLive]; err != nil {
		c.left[loadLive] = err
	}
	if c.isAlone() {
		return nil
	}
	base := c.Source.Base()
	if base == nil {
		return config.ErrNoBase
	}
	objects, lenient := c.objects(base), []config.Object{}
	all, err := base.With(objects)
	if err == nil {
		c.Edge = all
		return nil
	}
	strict := slices.DeleteFunc(slices.Clone(objects), func(o config.Object) bool {
		may := o.Alias || left[o.Label()] != nil
		if may {
			lenient = append(lenient, o)
		}
		return may
	})
	if len(lenient) == 0 {
		return err
	}
	alone, err := base.With(strict)
	if err != nil {
		return err
	}
	joined, _, out := base.Settle(objects)
	if slices.ContainsFunc(strict, func(o config.Object) bool { return out[o.Label()] != nil }) {
		joined = alone
		for _, o := range lenient {
			out[o.Label()] = cmp.Or(left[o.Label()], errors.New("it does not fit the others"))
		}
		maps.DeleteFunc(out, func(label string, _ error) bool {
			return slices.ContainsFunc(strict, func(o config.Object) bool { return o.Label() == label })
		})
	}
	c.Edge = joined
	maps.Copy(c.left, out)
	return nil
}

// settle is join where none has to fit.
func (c *Candidate) settle() error {
	if c.isAlone() {
		return nil
	}
	base := c.Source.Base()
	if base == nil {
		return config.ErrNoBase
	}
	objects := c.objects(base)
	edge, _, left := base.Settle(objects)
	c.Edge = edge
	maps.Copy(c.left, left)
	return nil
}

// isAlone reports whether there is nothing besides the file.
func (c *Candidate) isAlone() bool { return c.live.Len() == 0 && len(c.alias.Found()) == 0 }

// objects are what is added to base.
func (c *Candidate) objects(base *config.Base) []config.Object {
	list := c.live.Objects()
	if len(c.alias.Found()) > 0 {
		c.alias = base.Aliases(c.alias.Found(), list, c.alias)
		maps.Copy(c.left, c.alias.Wrong())
	}
	return append(list, c.alias.Objects()...)
}

// follow gives c the live objects of now, where these are others than those that it had.
func (c *Candidate) follow(now Candidate) error {
	if c.live.Version() == now.live.Version() && maps.Equal(c.alias.Found(), now.alias.Found()) {
		return nil
	}
	was := *c
	c.live, c.alias, c.left = now.live, now.alias, map[string]error{}
	if base := c.Source.Base(); base != nil {
		edge, err := base.With(nil)
		if err != nil {
			return err
		}
		c.Edge = edge
	}
	if err := c.settle(); err != nil {
		return err
	}
	next, err := c.compile(was)
	*c = next
	return err
}

// problems are of live objects that are not in force.
func (c *Candidate) problems() (list []problem.Problem) {
	const most = 20
	labels := slices.Sorted(maps.Keys(c.left))
	for i, label := range labels {
		if i == most {
			list = append(list, problem.Error("%d more live objects are not in force: selvage live lists them", len(labels)-most))
			break
		}
		if label == loadLive {
			list = append(list, problem.Error("%v", c.left[label]))
			continue
		}
		list = append(list, problem.Error("%s is not in force: %v", label, c.left[label]))
	}
	return list
}

// ForgetLive removes what is kept of live objects that a reboot would end: the data path is gone as after one.
func (t *Transactions) ForgetLive() error {
	return live.StoreOf(t.o.StateDir, t.o.RuntimeDir, t.current().Edge.Name).Forget()
}

// Live are the live objects, and ports by aliases.
func (c Changes) Live() api.LiveList {
	now := c.t.current()
	list := api.LiveList{Version: now.live.Version(), Objects: []api.LiveObject{}}
	document := func(o config.Object, d api.LiveObject) {
		if why := now.left[o.Label()]; why != nil {
			d.NotInForce = why.Error()
		}
		list.Objects = append(list.Objects, d)
	}
	for _, e := range now.live.Entries() {
		document(e.Object, e.Document())
	}
	for _, o := range now.alias.Objects() {
		document(o, api.LiveObject{Kind: string(o.Kind), Key: o.Key, By: string(overlay.OriginAlias), Object: o.Text})
	}
	return list
}

// ChangeLive changes live objects: all that is asked for comes into force, or nothing.
func (c Changes) ChangeLive(ctx context.Context, q api.LiveQuery, by string) (api.LiveInfo, error) {
	if err := c.t.turn.take(ctx, c.t.loop.Ended()); err != nil {
		return api.LiveInfo{}, err
	}
	defer c.t.turn.pass()
	was := c.t.current()
	change, err := was.live.Do(q.Operations, by, time.Now())
	if err != nil {
		return api.LiveInfo{}, err
	}
	next, err := was.with(change)
	if err != nil {
		return api.LiveInfo{}, api.BadRequest{Err: err}
	}
	info, err := c.liveInfo(was, next, change, q.DryRun)
	if err != nil || q.DryRun {
		return info, err
	}
	if change.Set.Version() != was.live.Version() {
		if err := c.bringLive(was, next); err != nil {
			return info, err
		}
		c.t.o.Log.InfoContext(ctx, "live objects changed", event.Is(event.ObjectsChanged), "objects", labels(change.Labels), "version", info.Version)
	}
	info.Applied = true
	if left := c.t.edge.LeftOut(); left != nil {
		info.LeftOut = left.Error()
	}
	return info, nil
}

// labels are names of objects for a log, some of them where there are many.
func labels(of map[string]bool) string {
	const most = 10
	list := slices.Sorted(maps.Keys(of))
	if more := len(list) - most; more > 0 {
		list = append(list[:most], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, ", ")
}

// with is a configuration with other live objects. Those that change have to fit.
func (c Candidate) with(change live.Change) (Candidate, error) {
	if change.Set.Version() == c.live.Version() {
		return c, nil
	}
	next := c
	next.live = change.Set
	left := maps.Clone(c.left)
	maps.DeleteFunc(left, func(label string, _ error) bool { return change.Labels[label] })
	base := next.Source.Base()
	if base == nil {
		return c, config.ErrNoBase
	}
	edge, err := base.With(nil)
	if err != nil {
		return c, err
	}
	next.Edge = edge
	if err := next.join(left); err != nil {
		return c, err
	}
	return next.compile(c)
}

// bringLive has live objects be in force and be kept, or neither.
func (c Changes) bringLive(was, next Candidate) error {
	err := c.inLoop(func() error {
		return c.t.bring(next, func(next Candidate) error {
			failed := c.t.adjust(next)
			if failed == nil && c.t.edge.LeftOut() == nil {
				return nil
			}
			return c.t.take(next) // an interface may have gone: with another look at the host
		})
	})
	if err != nil {
		return fmt.Errorf("the live objects are as they were: %w", err)
	}
	err = live.StoreOf(c.t.o.StateDir, c.t.o.RuntimeDir, was.Edge.Name).Save(was.live, next.live)
	if err != nil {
		back := c.inLoop(func() error { c.t.rollBack(was); return nil })
		return errors.Join(fmt.Errorf("the live objects are as they were: %w", err), back)
	}
	return nil
}

func (c Changes) liveInfo(was, next Candidate, change live.Change, dryRun bool) (api.LiveInfo, error) {
	info := api.LiveInfo{
		Edge: next.Edge.Name, Version: next.live.Version(), Changes: apiserver.ChangesOf(change.Changes), Objects: []api.LiveObject{},
		Effects: api.ApplyEffects{BGPResets: []string{}},
	}
	info.Omitted = max(0, len(info.Changes)-api.MaxChanges)
	info.Changes = info.Changes[:len(info.Changes)-info.Omitted]
	for _, e := range change.Touched {
		info.Objects = append(info.Objects, e.Document())
	}
	if !dryRun { // the look at all connections takes longer than the change
		return info, nil
	}
	effects, err := c.t.edge.Effects(was.Edge, next)
	if effects.BGPResets == nil {
		effects.BGPResets = []string{}
	}
	info.Effects = effects
	return info, err
}
