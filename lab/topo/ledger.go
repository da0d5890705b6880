package topo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/ethtool"
)

// ledgerRoot holds a file for each ledger of offloads that is open. It is not in the
// directory of a lab: interfaces may outlive that.
const ledgerRoot = "/run/selvage/offloads"

// Ledger changes offloads of interfaces and knows how they were: it writes every feature of
// an interface down before it touches the first. Close sets them again, and after a SIGKILL
// RestoreOffloads does.
type Ledger struct {
	mu    sync.Mutex
	state ledgerState
}

type ledgerState struct {
	ID         string          `json:"id"`
	Owner      process         `json:"owner"`
	Interfaces []featuresOfOne `json:"interfaces"`
}

// featuresOfOne is how an interface was. Index tells it from a later one of the same name.
type featuresOfOne struct {
	Namespace string          `json:"namespace"` // as ip netns names it
	Name      string          `json:"name"`
	Index     int             `json:"index"`
	Requested map[string]bool `json:"requested"` // of all features that can be changed
	Active    map[string]bool `json:"active"`    // what of these was in force
}

func (f featuresOfOne) String() string { return f.Namespace + "/" + f.Name }

// NewLedger opens a ledger for a lab; its file is written with the first change.
func NewLedger(l *Lab) (*Ledger, error) {
	own, err := processNow(os.Getpid())
	if err != nil {
		return nil, err
	}
	return &Ledger{state: ledgerState{ID: l.ID, Owner: own}}, nil
}

// Set asks for features of an interface by ethtool's names and returns what is in force then.
// Features that the interface does not have or cannot change stay as they are: what is in
// force is what counts.
func (l *Ledger) Set(h *Host, name string, want map[string]bool) (map[string]bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var now map[string]bool
	err := h.Do(func() error {
		return withEthtool(func(e *ethtool.Tool) (err error) {
			found, err := read(e, h.Namespace, name)
			if err != nil {
				return err
			}
			if err := l.note(found); err != nil {
				return err
			}
			now, err = found.change(e, want)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("offloads of %s/%s: %w", h.Name, name, err)
	}
	return now, nil
}

// note writes down how an interface is, once.
func (l *Ledger) note(found featuresOfOne) error {
	if slices.ContainsFunc(l.state.Interfaces, func(f featuresOfOne) bool { return f.same(found) }) {
		return nil
	}
	l.state.Interfaces = append(l.state.Interfaces, found)
	return l.state.save()
}

// Close sets everything as it was and forgets it. It may be called again.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.state.restore()
	return err
}

// RestoreOffloads sets the offloads again that killed processes had changed, and returns
// the interfaces. Those that are gone need nothing.
func RestoreOffloads(ctx context.Context) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(ledgerRoot, "*.json"))
	if err != nil {
		return nil, err
	}
	var restored []string
	var errs []error
	for _, file := range files {
		if ctx.Err() != nil {
			return restored, errors.Join(append(errs, ctx.Err())...)
		}
		s, err := loadLedger(file)
		switch {
		case errors.Is(err, fs.ErrNotExist): // closed meanwhile
		case err != nil:
			errs = append(errs, err)
		case s.Owner.alive():
		default:
			names, err := s.restore()
			restored, errs = append(restored, names...), append(errs, err)
		}
	}
	return restored, errors.Join(errs...)
}

func loadLedger(file string) (*ledgerState, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s := new(ledgerState)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("ledger of offloads %s: %w (compare it with ethtool -k and remove it by hand)", file, err)
	}
	if s.ID+".json" != filepath.Base(file) {
		return nil, fmt.Errorf("ledger of offloads %s is of lab %q (remove it by hand)", file, s.ID)
	}
	return s, nil
}

func (s *ledgerState) path() string { return filepath.Join(ledgerRoot, s.ID+".json") }

// save replaces the file at once and has it on disk before anything is changed.
func (s *ledgerState) save() error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("ledger of offloads: %w", err)
	}
	if err := os.MkdirAll(ledgerRoot, 0o755); err != nil {
		return fmt.Errorf("ledger of offloads: %w", err)
	}
	next := s.path() + ".next"
	if err := os.WriteFile(next, data, 0o644); err != nil {
		return fmt.Errorf("ledger of offloads: %w", err)
	}
	return os.Rename(next, s.path())
}

// restore sets all interfaces as they were, the latest first, and removes the file when
// that worked. It returns those that were still there.
func (s *ledgerState) restore() ([]string, error) {
	var restored []string
	var errs []error
	for _, f := range slices.Backward(s.Interfaces) {
		there, err := f.restore()
		if err != nil {
			errs = append(errs, fmt.Errorf("offloads of %s as they were (see %s): %w", f, s.path(), err))
		} else if there {
			restored = append(restored, f.String())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return restored, err
	}
	s.Interfaces = nil
	return restored, ignoreMissing(os.Remove(s.path()))
}

func (f featuresOfOne) same(other featuresOfOne) bool {
	return f.Namespace == other.Namespace && f.Name == other.Name && f.Index == other.Index
}

// read is how an interface of the namespace that this thread is in is now.
func read(e *ethtool.Tool, namespace, name string) (featuresOfOne, error) {
	f := featuresOfOne{Namespace: namespace, Name: name, Requested: map[string]bool{}, Active: map[string]bool{}}
	dev, err := net.InterfaceByName(name)
	if err != nil {
		return f, err
	}
	f.Index = dev.Index
	all, err := e.FeaturesWithState(name)
	if err != nil {
		return f, err
	}
	for feature, s := range all {
		if s.Available && !s.NeverChanged {
			f.Requested[feature], f.Active[feature] = s.Requested, s.Active
		}
	}
	return f, nil
}

// change asks for features, of those that can be changed, and returns what is in force then.
func (f featuresOfOne) change(e *ethtool.Tool, want map[string]bool) (map[string]bool, error) {
	ask := map[string]bool{}
	for feature, on := range want {
		if _, ok := f.Requested[feature]; ok {
			ask[feature] = on
		}
	}
	if len(ask) > 0 {
		if err := e.Change(f.Name, ask); err != nil {
			return nil, err
		}
	}
	now, err := read(e, f.Namespace, f.Name)
	return now.Active, err
}

// restore sets an interface as it was and looks whether it is. It is false when the
// interface is gone.
func (f featuresOfOne) restore() (there bool, err error) {
	enter := func() error {
		ns, err := netns.GetFromName(f.Namespace)
		if err != nil {
			return err
		}
		defer ns.Close()
		return netns.Set(ns)
	}
	t, err := startThread(enter)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EINVAL) { // it has gone, or is just going
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer t.stop()
	err = t.run(func() error {
		if there = f.exists(); !there {
			return nil
		}
		err := withEthtool(func(e *ethtool.Tool) error {
			now, err := f.change(e, f.Requested)
			if err != nil {
				return err
			}
			return f.differs(now)
		})
		if there = f.exists(); !there { // its lab was closing meanwhile, as it does when a context ends
			return nil
		}
		return err
	})
	return there, err
}

// exists says whether the interface is still there, and not another of its name.
func (f featuresOfOne) exists() bool {
	dev, err := net.InterfaceByName(f.Name)
	return err == nil && dev.Index == f.Index
}

// differs names what is not as it was.
func (f featuresOfOne) differs(now map[string]bool) error {
	var wrong []string
	for _, feature := range slices.Sorted(maps.Keys(f.Active)) {
		if now[feature] != f.Active[feature] {
			wrong = append(wrong, fmt.Sprintf("%s stays %t", feature, now[feature]))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(wrong, ", "))
}

func withEthtool(f func(*ethtool.Tool) error) error {
	e, err := ethtool.Open()
	if err != nil {
		return err
	}
	defer e.Close()
	return f(e)
}
