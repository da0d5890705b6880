package edge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
	"github.com/selvage/selvage/internal/revision"
)

// Problems of configurations.
const (
	// reloadConfiguration is of a configuration that is not in force.
	reloadConfiguration = "reload the configuration, the previous one stays in force"
	startConfiguration  = "start with the configuration's file"
	keepRevisions       = "keep the revisions of the configuration"
	goBackByItself      = "go back to the configuration before, which selvage rollback tries again"
)

// candidate is a configuration that has been read and compiled, and may come into force.
type candidate struct {
	edge  overlay.Edge
	rules ruled
	revision.Revision
}

// awaited is a configuration that goes back by itself unless somebody confirms it.
type awaited struct {
	id    int // of its revision
	until time.Time
	back  candidate
	timer *time.Timer
}

// turn is of who reads a configuration and brings it into force. One has it at a time, so that
// none is replaced by one that was read before it.
type turn chan struct{}

// take waits for the turn. Who has gone meanwhile, or finds the edge ended, does not get it.
func (t turn) take(ctx context.Context, ended <-chan struct{}) error {
	select {
	case t <- struct{}{}:
	case <-ended:
		return errStopping
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		t.pass()
		return err
	}
	return nil
}

func (t turn) pass() { <-t }

// loadFirst reads the configuration to start with: the file's or, when that is broken or nobody
// has confirmed it, the last good revision. broken is why it is not the file's.
func (o RunOptions) loadFirst() (first candidate, broken, err error) {
	edge, source, err := o.Load(o.ConfigPath)
	if err == nil {
		broken = o.unconfirmed(edge.Name, source)
	}
	if err == nil && broken == nil {
		first, err = newCandidate(candidate{}, edge, revision.Revision{What: startWord, Path: o.ConfigPath, Source: source})
		if err == nil {
			return first, nil, nil
		}
	}
	last, none := revision.LastGood(o.StateDir, o.ConfigPath)
	if none != nil {
		return candidate{}, nil, cmp.Or(err, broken)
	}
	good, unreadable := o.Parse(last.Source)
	if unreadable == nil {
		first, unreadable = newCandidate(candidate{}, good, last)
	}
	if unreadable != nil {
		return candidate{}, nil, cmp.Or(err, broken)
	}
	if err == nil && last.Hash == revision.Hash(source) { // what nobody confirmed changed nothing
		return first, nil, nil
	}
	return first, fmt.Errorf("revision %d of %s is in force: mend the file, then selvage apply %s: %w",
		last.ID, last.When.UTC().Format(time.DateTime), o.ConfigPath, cmp.Or(err, broken)), nil
}

// unconfirmed is why the file is not to be used: it holds what was to go back by itself.
func (o RunOptions) unconfirmed(name string, source config.Source) error {
	store, err := revision.Open(o.StateDir, name)
	if err != nil {
		return nil // said when the edge runs
	}
	list, err := store.List()
	if err != nil {
		return nil
	}
	hash := revision.Hash(source)
	i := slices.IndexFunc(list, func(r revision.Revision) bool { return r.Hash == hash })
	if i < 0 || !list[i].Unconfirmed {
		return nil
	}
	return fmt.Errorf("%s holds revision %d, which nobody confirmed", o.ConfigPath, list[i].ID)
}

// newCandidate compiles a configuration. Policies that are the same as was's need not be.
func newCandidate(was candidate, next overlay.Edge, r revision.Revision) (candidate, error) {
	rules, err := compile(was.edge, was.rules, next)
	return candidate{next, rules, r}, err
}

// current is the configuration that is wanted now.
func (e *edge) current() candidate {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return candidate{e.configured, e.ruled, e.inForce}
}

// sameName refuses the configuration of another edge.
func (e *edge) sameName(next overlay.Edge, path string) error {
	if name := e.current().edge.Name; next.Name != name {
		return fmt.Errorf("%s: metadata.name changed from %s to %s: stop this edge and start the other", path, name, next.Name)
	}
	return nil
}

// reload takes over the file of the configuration, which is read and compiled beside the loop:
// that takes seconds with many rules. A wrong one changes nothing.
func (e *edge) reload() {
	if e.reloading {
		e.reloadAgain = true
		return
	}
	e.reloading = true
	go func() { // ends with the loop, which takes what it has found, or has ended
		if e.turn.take(context.Background(), e.ended) != nil {
			return
		}
		defer e.turn.pass()
		c, err := e.readFile()
		_, _ = inLoop(e, func() (struct{}, error) { // an edge that stops reloads no more
			e.reloaded(c, err)
			return struct{}{}, nil
		})
	}()
}

// readFile reads and compiles the file of the configuration.
func (e *edge) readFile() (candidate, error) {
	was := e.current()
	next, source, err := e.opts.Load(e.opts.ConfigPath)
	if err == nil {
		err = e.sameName(next, e.opts.ConfigPath)
	}
	if err != nil {
		return candidate{}, err
	}
	return newCandidate(was, next, revision.Revision{By: "signal", What: reloadWord, Path: e.opts.ConfigPath, Source: source})
}

// reloaded ends a reload in the loop.
func (e *edge) reloaded(next candidate, err error) {
	if err == nil {
		err = e.transact(next, 0)
	}
	e.reportProblem(reloadConfiguration, err)
	if err == nil {
		// Not before: who waits for this line finds the data path as the file has it.
		e.log.Info("configuration reloaded", "segments", len(next.edge.Segments), "ports", len(next.edge.Ports))
	}
	e.reloading, e.reloadConfirmed = false, e.awaited != nil
	if e.reloadAgain && e.dp != nil {
		e.reloadAgain = false
		e.reload()
	}
}

// transact makes a configuration the one in force, whole, or leaves the one before in force and
// says why. With confirm it goes back by itself after that time. Of the loop alone.
func (e *edge) transact(next candidate, confirm time.Duration) error {
	was := e.current()
	if e.awaited != nil {
		return fmt.Errorf("revision %d waits for selvage confirm until %s: confirm it, or go back by selvage rollback",
			e.awaited.id, e.awaited.until.UTC().Format(time.TimeOnly))
	}
	if err := e.reopen(next.edge); err != nil {
		return err
	}
	before := e.leftOut()
	next.When = time.Now()
	e.take(next)
	failed := e.notApplied()
	if before == nil { // else it may be what frees the room that lacked
		failed = cmp.Or(failed, e.leftOut())
	}
	if failed != nil {
		e.rollBack(was)
		return failed
	}
	e.noteVersion(next.edge)
	if next.Path == e.opts.ConfigPath {
		e.reportProblem(startConfiguration, nil)
	}
	e.reportProblem(reloadConfiguration, nil)
	e.reportProblem(goBackByItself, nil)
	e.keep(next.Revision, confirm > 0)
	if confirm > 0 {
		e.await(was, confirm)
	}
	freeMemory(was.edge, next.edge)
	return nil
}

// notApplied is why the last reconciliation wrote no tables.
func (e *edge) notApplied() error { return cmp.Or(e.faults.of(observeHost), e.faults.of(applyTables)) }

// leftOut is what of the tables in force could not be written.
func (e *edge) leftOut() error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.left
}

// take makes a configuration the one that is wanted, and has it applied.
func (e *edge) take(next candidate) {
	e.mu.Lock()
	e.configured, e.config, e.ruled, e.inForce = next.edge, next.edge, next.rules, next.Revision
	e.mu.Unlock()
	e.configureBGP()
	e.reconcile()
	e.followBGP()
}

// rollBack takes the previous configuration again, as the tables of another one could not be
// applied.
func (e *edge) rollBack(was candidate) {
	e.reportProblem("open the data path for the previous configuration", e.reopen(was.edge))
	e.take(was)
}

// keep writes the revision in force down. What was kept last needs no other number.
func (e *edge) keep(r revision.Revision, unconfirmed bool) {
	r.Unconfirmed = unconfirmed
	store, err := revision.Open(e.opts.StateDir, e.configured.Name)
	if err == nil {
		if last, ok := keptLast(store, r); ok {
			last.Source = r.Source
			e.setInForce(last)
			e.reportProblem(keepRevisions, nil)
			return
		}
		r.ID, err = store.Add(r)
	}
	e.reportProblem(keepRevisions, err)
	e.setInForce(r)
}

// keptLast is the newest revision, when it has the text of r, which comes from the file alone. So
// starts and reloads of a file that did not change forget no other revision. A rollback is not the file's.
func keptLast(store *revision.Store, r revision.Revision) (last revision.Revision, ok bool) {
	list, err := store.List()
	if err != nil || len(list) == 0 || r.What != startWord && r.What != reloadWord {
		return last, false
	}
	last = list[0]
	return last, last.Path == r.Path && last.Hash == revision.Hash(r.Source) && !last.Unconfirmed && !isRollback(last)
}

// What a revision came into force by, for those who ask.
const (
	startWord    = "start"
	reloadWord   = "reload"
	rollbackWord = "rollback to "
)

func isRollback(r revision.Revision) bool { return strings.HasPrefix(r.What, rollbackWord) }

func (e *edge) setInForce(r revision.Revision) {
	e.mu.Lock()
	e.inForce = r
	e.mu.Unlock()
}

// await has a configuration go back, unless it is confirmed.
func (e *edge) await(was candidate, within time.Duration) {
	a := &awaited{id: e.inForce.ID, until: time.Now().Add(within), back: was}
	a.timer = time.AfterFunc(within, func() {
		select {
		case e.jobs <- func() { e.lapse(a) }:
		case <-e.ended:
		}
	})
	e.setAwaited(a)
	e.log.Info("the configuration goes back unless it is confirmed", "revision", a.id, "within", within)
}

func (e *edge) setAwaited(a *awaited) {
	e.mu.Lock()
	e.awaited = a
	e.mu.Unlock()
}

// lapse goes back to what was in force before, as nobody confirmed.
func (e *edge) lapse(a *awaited) {
	if e.awaited != a {
		return
	}
	e.log.Warn("nobody confirmed the configuration, it goes back", "revision", a.id)
	e.reportProblem(goBackByItself, e.goBack(fmt.Sprintf("revision %d was not confirmed", a.id), "timeout"))
}

// goBack ends the wait for a confirmation with the configuration before.
func (e *edge) goBack(what, by string) error {
	a := e.awaited
	a.timer.Stop()
	e.setAwaited(nil)
	e.reloadConfirmed = false
	back := a.back
	back.What, back.By = what, by
	return e.transact(back, 0)
}

// confirm has the configuration stay that is waiting for it.
func (e *edge) confirm() error {
	a := e.awaited
	if a == nil {
		return errors.New("no configuration waits for a confirmation")
	}
	a.timer.Stop()
	e.setAwaited(nil)
	r := e.inForce
	r.Unconfirmed = false
	e.setInForce(r)
	store, err := revision.Open(e.opts.StateDir, e.configured.Name)
	if err == nil {
		err = store.Confirm(a.id)
	}
	e.reportProblem(keepRevisions, err)
	e.log.Info("the configuration is confirmed", "revision", a.id)
	if e.reloadConfirmed {
		e.reloadConfirmed = false
		e.reload()
	}
	return nil
}

// earlier reads a revision, or with 0 the newest confirmed one that differs from what is in force.
func (e *edge) earlier(id int) (revision.Revision, error) {
	now := e.current()
	store, err := revision.Open(e.opts.StateDir, now.edge.Name)
	if err != nil {
		return revision.Revision{}, err
	}
	if id == 0 {
		list, err := store.List()
		if err != nil {
			return revision.Revision{}, err
		}
		hash := revision.Hash(now.Source)
		i := slices.IndexFunc(list, func(r revision.Revision) bool {
			return (r.ID < now.ID || now.ID == 0) && r.Hash != hash && !r.Unconfirmed
		})
		if i < 0 {
			return revision.Revision{}, revision.MissingError("there is no revision before the one in force")
		}
		id = list[i].ID
	}
	return store.Get(id)
}

// configProblems are what is not settled about the configuration. mu is held.
func (e *edge) configProblems() (list []problem.Problem) {
	if a := e.awaited; a != nil {
		list = append(list, problem.Warning("revision %d goes back by itself at %s: selvage confirm has it stay", a.id, a.until.UTC().Format(time.TimeOnly)))
	}
	switch {
	case isRollback(e.inForce) && e.inForce.Path == e.opts.ConfigPath:
		list = append(list, problem.Note("revision %d is in force, a %s: a restart takes %s as it is: mend it, then selvage apply %s",
			e.inForce.ID, e.inForce.What, e.opts.ConfigPath, e.opts.ConfigPath))
	case e.inForce.Path != e.opts.ConfigPath:
		list = append(list, problem.Note("the configuration in force is of %s: a restart takes %s again", e.inForce.Path, e.opts.ConfigPath))
	}
	return list
}
