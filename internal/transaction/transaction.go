// Package transaction brings configurations of an edge into force, each whole or not at all, and keeps those that were as
// revisions.
//
// Its one invariant: one configuration is read at a time, so that none is replaced by one that was read before it, and what
// could not be applied leaves the one before in force. Do not use it to decide what tables contain: the edge that it
// is handed applies what it is given.
package transaction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/live"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/problem"
	"github.com/selvage/selvage/internal/revision"
)

// Problems of configurations.
const (
	// ReloadConfiguration is of a configuration that is not in force.
	ReloadConfiguration = "reload the configuration, the previous one stays in force"
	StartConfiguration  = "start with the configuration's file"
	KeepRevisions       = "keep the revisions of the configuration"
	goBackByItself      = "go back to the configuration before, which selvage rollback tries again"
)

// ErrStopping is of an edge that takes over no configuration any more.
var ErrStopping = errors.New("the edge is stopping")

// Candidate is a configuration that has been read and compiled, and may come into force.
type Candidate struct {
	Edge     overlay.Edge // with its live objects
	Policies plan.Policies
	revision.Revision

	live  live.Set
	alias config.Aliased   // ports by patterns and aliases of interfaces
	left  map[string]error // live objects that do not fit, by label
}

// Edge is what configurations come into force in. All but LeftOut and Effects is called by the goroutine of its loop.
type Edge interface {
	// Reopen loads other programs when next needs them. After an error those in force stay.
	Reopen(next overlay.Edge) error
	// Take has a configuration be the one that is wanted, and applies it as far as it can be. An error says that
	// nothing of it was written.
	Take(next overlay.Edge, policies plan.Policies) error
	// Adjust is Take where live objects alone are others than before: it may look at less of the host.
	Adjust(next overlay.Edge, policies plan.Policies) error
	// LeftOut is what of the tables in force could not be written.
	LeftOut() error
	// Effects are what becomes of what runs when next follows was.
	Effects(was overlay.Edge, next Candidate) (api.ApplyEffects, error)
}

// Loop is the goroutine of an edge.
type Loop interface {
	// Do has f done by it, and waits for that; ErrStopping: it was not done.
	Do(f func()) error
	// Ended is closed when it does nothing more.
	Ended() <-chan struct{}
}

// Options are what transactions need besides an edge.
type Options struct {
	Path     string // of the file of the configuration
	StateDir string // of the revisions, and of live objects that outlast a reboot
	// RuntimeDir is of live objects that do not.
	RuntimeDir string
	Load       func(path string) (overlay.Edge, config.Source, error)
	Parse      func(config.Source) (overlay.Edge, config.Source, error) // which it returns as it was read
	Log        *slog.Logger
	// Report keeps an error as a problem until it is called with nil.
	Report func(what string, err error)
	// Changing is told of each change that begins, and what it returns when that has ended, well or not.
	Changing func() (end func())
	Counter  Counter // nil: nobody counts
}

// Counter counts what becomes of configurations.
type Counter interface {
	// Configured counts one that was to come into force; an error is why it did not.
	Configured(at time.Time, err error)
	// Revision is of the one in force.
	Revision(id int)
}

// count counts a configuration that was to come into force.
func (t *Transactions) count(err error) {
	if t.o.Counter != nil && !errors.Is(err, ErrStopping) {
		t.o.Counter.Configured(time.Now(), err)
	}
}

// Transactions bring configurations into force. But for reading and compiling them all is done by the goroutine of the
// edge's loop.
type Transactions struct {
	o    Options
	edge Edge
	loop Loop

	mu      sync.RWMutex
	inForce Candidate // the configuration that is wanted
	awaited *awaited  // it, when it goes back by itself; else nil

	turn                   turn // one configuration is read at a time
	reloading, reloadAgain bool
	aliases                following
	reloadConfirmed        bool // a reload found that the configuration waits for its confirmation
}

// New has first be in force.
func New(o Options, edge Edge, loop Loop, first Candidate) *Transactions {
	return &Transactions{o: o, edge: edge, loop: loop, inForce: first, turn: make(turn, 1)}
}

// current is the configuration that is wanted now.
func (t *Transactions) current() Candidate {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.inForce
}

// waiting is the configuration that goes back by itself, nil when there is none.
func (t *Transactions) waiting() *awaited {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.awaited
}

// awaited is a configuration that goes back by itself unless somebody confirms it.
type awaited struct {
	id    int // of its revision
	until time.Time
	back  Candidate
	timer *time.Timer
}

// compile adds the live objects of was to a configuration, and compiles it. Policies that are the same as was's need not be.
func compile(was Candidate, next overlay.Edge, r revision.Revision) (Candidate, error) {
	c := Candidate{Edge: next, Revision: r, live: was.live, alias: was.alias}
	if err := c.join(was.left); err != nil {
		return c, err
	}
	return c.compile(was)
}

// compile compiles the policies of a candidate that is to follow was.
func (c Candidate) compile(was Candidate) (Candidate, error) {
	policies, err := plan.CompilePolicies(was.Edge, was.Policies, c.Edge)
	c.Policies = policies
	return c, err
}

// sameName refuses the configuration of another edge.
func (t *Transactions) sameName(next overlay.Edge, path string) error {
	if name := t.current().Edge.Name; next.Name != name {
		return fmt.Errorf("%s: metadata.name changed from %s to %s: stop this edge and start the other", path, name, next.Name)
	}
	return nil
}

// Reload takes over the file of the configuration, which is read and compiled beside the loop:
// that takes seconds with many rules. A wrong one changes nothing.
func (t *Transactions) Reload() {
	if t.reloading {
		t.reloadAgain = true
		return
	}
	t.reloading = true
	go func() { // ends with the loop, which takes what it has found, or has ended
		if t.turn.take(context.Background(), t.loop.Ended()) != nil {
			return
		}
		defer t.turn.pass()
		c, err := t.readFile("signal")
		_ = t.loop.Do(func() { t.reloaded(c, err) }) // an edge that stops reloads no more
	}()
}

// readFile reads and compiles the file of the configuration, for who asked.
func (t *Transactions) readFile(by string) (Candidate, error) {
	was := t.current()
	next, source, err := t.o.Load(t.o.Path)
	if err == nil {
		err = t.sameName(next, t.o.Path)
	}
	if err != nil {
		return Candidate{}, err
	}
	return compile(was, next, revision.Revision{By: by, What: reloadWord, Path: t.o.Path, Source: source})
}

// reloaded ends a reload in the loop.
func (t *Transactions) reloaded(next Candidate, err error) {
	if err == nil {
		err = t.transact(next, 0)
	}
	t.count(err)
	t.o.Report(ReloadConfiguration, err)
	asked := event.WithActor(context.Background(), event.Actor{How: event.BySignal})
	if err != nil {
		t.o.Log.WarnContext(asked, "configuration refused: the one before is in force", event.Is(event.ConfigRefused), "path", t.o.Path, "what", reloadWord)
	} else {
		// Not before: who waits for this line finds the data path as the file has it.
		t.o.Log.InfoContext(asked, "configuration reloaded", event.Is(event.ConfigApplied), "revision", t.current().Revision.ID, "segments", len(next.Edge.Segments), "ports", len(next.Edge.Ports))
	}
	t.reloading, t.reloadConfirmed = false, t.awaited != nil
	if t.reloadAgain {
		t.reloadAgain = false
		t.Reload()
	}
}

// transact makes a configuration the one in force, whole, or leaves the one before in force and
// says why. With confirm it goes back by itself after that time. Of the loop alone.
func (t *Transactions) transact(next Candidate, confirm time.Duration) error {
	was := t.current()
	if t.awaited != nil {
		return fmt.Errorf("revision %d waits for selvage confirm until %s: confirm it, or go back by selvage rollback",
			t.awaited.id, t.awaited.until.UTC().Format(time.TimeOnly))
	}
	next.When = time.Now()
	if err := t.bring(next, t.take); err != nil {
		return err
	}
	t.logWarnings(next.Edge)
	if next.Path == t.o.Path {
		t.o.Report(StartConfiguration, nil)
	}
	t.o.Report(ReloadConfiguration, nil)
	t.o.Report(goBackByItself, nil)
	t.keep(next.Revision, confirm > 0)
	if confirm > 0 {
		t.await(was, confirm)
	}
	FreeMemory(was.Edge, next.Edge)
	return nil
}

// bring has a configuration be in force whole, or leaves the one before in force. Of the loop alone.
func (t *Transactions) bring(next Candidate, take func(Candidate) error) error {
	if t.o.Changing != nil {
		defer t.o.Changing()()
	}
	was := t.current()
	if err := t.edge.Reopen(next.Edge); err != nil {
		return err
	}
	before := t.edge.LeftOut()
	failed := take(next)
	if before == nil { // else it may be what frees the room that lacked
		failed = cmp.Or(failed, t.edge.LeftOut())
	}
	if failed != nil {
		t.rollBack(was)
	}
	return failed
}

// logWarnings logs the warnings about a file.
func (t *Transactions) logWarnings(c overlay.Edge) {
	for _, warning := range c.Warnings {
		t.o.Log.Warn("the configuration is good, but: " + warning)
	}
}

// take makes a configuration the one that is wanted, and has it applied.
func (t *Transactions) take(next Candidate) error {
	t.mu.Lock()
	t.inForce = next
	t.mu.Unlock()
	return t.edge.Take(next.Edge, next.Policies)
}

// adjust is take where live objects alone are others than before.
func (t *Transactions) adjust(next Candidate) error {
	t.mu.Lock()
	t.inForce = next
	t.mu.Unlock()
	return t.edge.Adjust(next.Edge, next.Policies)
}

// rollBack takes the previous configuration again, as the tables of another one could not be
// applied.
func (t *Transactions) rollBack(was Candidate) {
	t.o.Report("open the data path for the previous configuration", t.edge.Reopen(was.Edge))
	_ = t.take(was) // what cannot be applied again is a fault of the edge
}

// KeepFirst writes down what the edge was started with, unless it is a revision already.
func (t *Transactions) KeepFirst(started time.Time) {
	first := t.current().Revision
	t.count(nil)
	if first.When.IsZero() {
		first.When, first.By = started, "edge"
		t.keep(first, false)
	}
}

// keep writes the revision in force down. What was kept last needs no other number.
func (t *Transactions) keep(r revision.Revision, unconfirmed bool) {
	r.Unconfirmed = unconfirmed
	store, err := revision.Open(t.o.StateDir, t.current().Edge.Name)
	if err == nil {
		if last, ok := keptLast(store, r); ok {
			last.Source = r.Source
			t.setInForce(last)
			t.o.Report(KeepRevisions, nil)
			return
		}
		r.ID, err = store.Add(r)
	}
	t.o.Report(KeepRevisions, err)
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

func (t *Transactions) setInForce(r revision.Revision) {
	t.mu.Lock()
	t.inForce.Revision = r
	t.mu.Unlock()
	if t.o.Counter != nil {
		t.o.Counter.Revision(r.ID)
	}
}

// await has a configuration go back, unless it is confirmed.
func (t *Transactions) await(was Candidate, within time.Duration) {
	a := &awaited{id: t.inForce.ID, until: time.Now().Add(within), back: was}
	a.timer = time.AfterFunc(within, func() { _ = t.loop.Do(func() { t.lapse(a) }) }) // a start knows that nobody confirmed
	t.setAwaited(a)
	t.o.Log.Info("the configuration goes back unless it is confirmed", event.Is(event.ConfigAwaits), "revision", a.id, "within", within)
}

func (t *Transactions) setAwaited(a *awaited) {
	t.mu.Lock()
	t.awaited = a
	t.mu.Unlock()
}

// lapse goes back to what was in force before, as nobody confirmed.
func (t *Transactions) lapse(a *awaited) {
	if t.awaited != a {
		return
	}
	t.o.Log.WarnContext(event.WithActor(context.Background(), event.Actor{How: event.ByEdge}),
		"nobody confirmed the configuration, it goes back", event.Is(event.ConfigRolledBack), "revision", a.id)
	err := t.goBack(fmt.Sprintf("revision %d was not confirmed", a.id), "timeout")
	t.count(err)
	t.o.Report(goBackByItself, err)
}

// goBack ends the wait for a confirmation with the configuration before.
func (t *Transactions) goBack(what, by string) error {
	a := t.awaited
	a.timer.Stop()
	t.setAwaited(nil)
	t.reloadConfirmed = false
	back := a.back
	if err := back.follow(t.current()); err != nil {
		return err
	}
	back.What, back.By = what, by
	return t.transact(back, 0)
}

// confirm has the configuration stay that is waiting for it.
func (t *Transactions) confirm(ctx context.Context) error {
	a := t.awaited
	if a == nil {
		return errors.New("no configuration waits for a confirmation")
	}
	a.timer.Stop()
	t.setAwaited(nil)
	r := t.inForce.Revision
	r.Unconfirmed = false
	t.setInForce(r)
	store, err := revision.Open(t.o.StateDir, t.current().Edge.Name)
	if err == nil {
		err = store.Confirm(a.id)
	}
	t.o.Report(KeepRevisions, err)
	t.o.Log.InfoContext(ctx, "the configuration is confirmed", event.Is(event.ConfigConfirmed), "revision", a.id)
	if t.reloadConfirmed {
		t.reloadConfirmed = false
		t.Reload()
	}
	return nil
}

// earlier reads a revision, or with 0 the newest confirmed one that differs from what is in force.
func (t *Transactions) earlier(id int) (revision.Revision, error) {
	now := t.current()
	store, err := revision.Open(t.o.StateDir, now.Edge.Name)
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

// Problems are what is not settled about the configuration.
func (t *Transactions) Problems() (list []problem.Problem) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if a := t.awaited; a != nil {
		list = append(list, api.Unconfirmed(a.id, a.until))
	}
	list = append(list, t.inForce.problems()...)
	switch {
	case isRollback(t.inForce.Revision) && t.inForce.Path == t.o.Path:
		list = append(list, problem.Note("revision %d is in force, a %s: a restart takes %s as it is: mend it, then selvage apply %s",
			t.inForce.ID, t.inForce.What, t.o.Path, t.o.Path))
	case t.inForce.Path != t.o.Path:
		list = append(list, problem.Note("the configuration in force is of %s: a restart takes %s again", t.inForce.Path, t.o.Path))
	}
	return list
}
