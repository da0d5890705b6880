package edge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/fault"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
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
	edge     overlay.Edge
	policies plan.Policies
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
	policies, err := plan.CompilePolicies(was.edge, was.policies, next)
	return candidate{next, policies, r}, err
}

// transactions bring configurations into force, each whole or not at all. But for reading and
// compiling them all is done by the goroutine of Run.
type transactions struct {
	opts   RunOptions
	log    *slog.Logger
	state  *state
	faults *fault.Faults
	jobs   jobs
	reopen func(next overlay.Edge) error // the data path, when next needs other programs
	apply  func()                        // the configuration that is wanted, as far as it can be

	// Changed under the mu of state.
	inForce revision.Revision // that is configured
	awaited *awaited          // it, when it goes back by itself; else nil

	turn                   turn // one configuration is read at a time
	reloading, reloadAgain bool
	reloadConfirmed        bool // a reload found that the configuration waits for its confirmation
}

// newTransactions has first be in force.
func newTransactions(e *edge, first candidate, reopen func(overlay.Edge) error, apply func()) transactions {
	return transactions{
		opts: e.opts, log: e.log, state: &e.state, faults: e.faults, jobs: e.jobs, reopen: reopen, apply: apply,
		inForce: first.Revision, turn: make(turn, 1),
	}
}

// current is the configuration that is wanted now.
func (t *transactions) current() candidate {
	t.state.mu.RLock()
	defer t.state.mu.RUnlock()
	return candidate{t.state.configured, t.state.policies, t.inForce}
}

// sameName refuses the configuration of another edge.
func (t *transactions) sameName(next overlay.Edge, path string) error {
	if name := t.current().edge.Name; next.Name != name {
		return fmt.Errorf("%s: metadata.name changed from %s to %s: stop this edge and start the other", path, name, next.Name)
	}
	return nil
}

// reload takes over the file of the configuration, which is read and compiled beside the loop:
// that takes seconds with many rules. A wrong one changes nothing.
func (t *transactions) reload() {
	if t.reloading {
		t.reloadAgain = true
		return
	}
	t.reloading = true
	go func() { // ends with the loop, which takes what it has found, or has ended
		if t.turn.take(context.Background(), t.jobs.ended) != nil {
			return
		}
		defer t.turn.pass()
		c, err := t.readFile()
		_, _ = inLoop(t.jobs, func() (struct{}, error) { // an edge that stops reloads no more
			t.reloaded(c, err)
			return struct{}{}, nil
		})
	}()
}

// readFile reads and compiles the file of the configuration.
func (t *transactions) readFile() (candidate, error) {
	was := t.current()
	next, source, err := t.opts.Load(t.opts.ConfigPath)
	if err == nil {
		err = t.sameName(next, t.opts.ConfigPath)
	}
	if err != nil {
		return candidate{}, err
	}
	return newCandidate(was, next, revision.Revision{By: "signal", What: reloadWord, Path: t.opts.ConfigPath, Source: source})
}

// reloaded ends a reload in the loop.
func (t *transactions) reloaded(next candidate, err error) {
	if err == nil {
		err = t.transact(next, 0)
	}
	t.faults.Report(reloadConfiguration, err)
	if err == nil {
		// Not before: who waits for this line finds the data path as the file has it.
		t.log.Info("configuration reloaded", "segments", len(next.edge.Segments), "ports", len(next.edge.Ports))
	}
	t.reloading, t.reloadConfirmed = false, t.awaited != nil
	if t.reloadAgain && t.state.dp != nil {
		t.reloadAgain = false
		t.reload()
	}
}

// transact makes a configuration the one in force, whole, or leaves the one before in force and
// says why. With confirm it goes back by itself after that time. Of the loop alone.
func (t *transactions) transact(next candidate, confirm time.Duration) error {
	was := t.current()
	if t.awaited != nil {
		return fmt.Errorf("revision %d waits for selvage confirm until %s: confirm it, or go back by selvage rollback",
			t.awaited.id, t.awaited.until.UTC().Format(time.TimeOnly))
	}
	if err := t.reopen(next.edge); err != nil {
		return err
	}
	before := t.leftOut()
	next.When = time.Now()
	t.take(next)
	failed := t.notApplied()
	if before == nil { // else it may be what frees the room that lacked
		failed = cmp.Or(failed, t.leftOut())
	}
	if failed != nil {
		t.rollBack(was)
		return failed
	}
	t.noteVersion(next.edge)
	if next.Path == t.opts.ConfigPath {
		t.faults.Report(startConfiguration, nil)
	}
	t.faults.Report(reloadConfiguration, nil)
	t.faults.Report(goBackByItself, nil)
	t.keep(next.Revision, confirm > 0)
	if confirm > 0 {
		t.await(was, confirm)
	}
	freeMemory(was.edge, next.edge)
	return nil
}

// noteVersion tells the warnings about a file, and that it is of an older version of the format, which a later build
// may no longer read.
func (t *transactions) noteVersion(c overlay.Edge) {
	for _, warning := range c.Warnings {
		t.log.Warn("the configuration is good, but: " + warning)
	}
	if c.APIVersion == config.PreviousVersion {
		t.log.Warn("the configuration is of an older apiVersion; selvage convert -w rewrites it", "file", t.opts.ConfigPath, "apiVersion", c.APIVersion)
	}
}

// notApplied is why the last reconciliation wrote no tables.
func (t *transactions) notApplied() error {
	return cmp.Or(t.faults.Of(observeHost), t.faults.Of(applyTables))
}

// leftOut is what of the tables in force could not be written.
func (t *transactions) leftOut() error {
	t.state.mu.RLock()
	defer t.state.mu.RUnlock()
	return t.state.left
}

// take makes a configuration the one that is wanted, and has it applied.
func (t *transactions) take(next candidate) {
	t.state.mu.Lock()
	t.state.configured, t.state.config, t.state.policies, t.inForce = next.edge, next.edge, next.policies, next.Revision
	t.state.mu.Unlock()
	t.apply()
}

// rollBack takes the previous configuration again, as the tables of another one could not be
// applied.
func (t *transactions) rollBack(was candidate) {
	t.faults.Report("open the data path for the previous configuration", t.reopen(was.edge))
	t.take(was)
}

// keep writes the revision in force down. What was kept last needs no other number.
func (t *transactions) keep(r revision.Revision, unconfirmed bool) {
	r.Unconfirmed = unconfirmed
	store, err := revision.Open(t.opts.StateDir, t.state.configured.Name)
	if err == nil {
		if last, ok := keptLast(store, r); ok {
			last.Source = r.Source
			t.setInForce(last)
			t.faults.Report(keepRevisions, nil)
			return
		}
		r.ID, err = store.Add(r)
	}
	t.faults.Report(keepRevisions, err)
	t.setInForce(r)
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

func (t *transactions) setInForce(r revision.Revision) {
	t.state.mu.Lock()
	t.inForce = r
	t.state.mu.Unlock()
}

// await has a configuration go back, unless it is confirmed.
func (t *transactions) await(was candidate, within time.Duration) {
	a := &awaited{id: t.inForce.ID, until: time.Now().Add(within), back: was}
	a.timer = time.AfterFunc(within, func() {
		select {
		case t.jobs.todo <- func() { t.lapse(a) }:
		case <-t.jobs.ended:
		}
	})
	t.setAwaited(a)
	t.log.Info("the configuration goes back unless it is confirmed", "revision", a.id, "within", within)
}

func (t *transactions) setAwaited(a *awaited) {
	t.state.mu.Lock()
	t.awaited = a
	t.state.mu.Unlock()
}

// lapse goes back to what was in force before, as nobody confirmed.
func (t *transactions) lapse(a *awaited) {
	if t.awaited != a {
		return
	}
	t.log.Warn("nobody confirmed the configuration, it goes back", "revision", a.id)
	t.faults.Report(goBackByItself, t.goBack(fmt.Sprintf("revision %d was not confirmed", a.id), "timeout"))
}

// goBack ends the wait for a confirmation with the configuration before.
func (t *transactions) goBack(what, by string) error {
	a := t.awaited
	a.timer.Stop()
	t.setAwaited(nil)
	t.reloadConfirmed = false
	back := a.back
	back.What, back.By = what, by
	return t.transact(back, 0)
}

// confirm has the configuration stay that is waiting for it.
func (t *transactions) confirm() error {
	a := t.awaited
	if a == nil {
		return errors.New("no configuration waits for a confirmation")
	}
	a.timer.Stop()
	t.setAwaited(nil)
	r := t.inForce
	r.Unconfirmed = false
	t.setInForce(r)
	store, err := revision.Open(t.opts.StateDir, t.state.configured.Name)
	if err == nil {
		err = store.Confirm(a.id)
	}
	t.faults.Report(keepRevisions, err)
	t.log.Info("the configuration is confirmed", "revision", a.id)
	if t.reloadConfirmed {
		t.reloadConfirmed = false
		t.reload()
	}
	return nil
}

// earlier reads a revision, or with 0 the newest confirmed one that differs from what is in force.
func (t *transactions) earlier(id int) (revision.Revision, error) {
	now := t.current()
	store, err := revision.Open(t.opts.StateDir, now.edge.Name)
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

// problems are what is not settled about the configuration. mu is held.
func (t *transactions) problems() (list []problem.Problem) {
	if a := t.awaited; a != nil {
		list = append(list, problem.Warning("revision %d goes back by itself at %s: selvage confirm has it stay", a.id, a.until.UTC().Format(time.TimeOnly)))
	}
	switch {
	case isRollback(t.inForce) && t.inForce.Path == t.opts.ConfigPath:
		list = append(list, problem.Note("revision %d is in force, a %s: a restart takes %s as it is: mend it, then selvage apply %s",
			t.inForce.ID, t.inForce.What, t.opts.ConfigPath, t.opts.ConfigPath))
	case t.inForce.Path != t.opts.ConfigPath:
		list = append(list, problem.Note("the configuration in force is of %s: a restart takes %s again", t.inForce.Path, t.opts.ConfigPath))
	}
	return list
}

// manyRules take more memory to read and compile than the runtime should keep for itself.
const manyRules = 10_000

// freeMemory gives that memory back, when one of the configurations has that many.
func freeMemory(configs ...overlay.Edge) {
	for _, c := range configs {
		if c.Firewall != nil && len(c.Firewall.Rules) >= manyRules {
			debug.FreeOSMemory()
			return
		}
	}
}
