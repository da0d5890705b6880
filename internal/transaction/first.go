package transaction

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/revision"
)

// First reads the configuration to start with: the file's or, when that is broken or nobody
// has confirmed it, the last good revision. broken is why it is not the file's.
func First(o Options) (first Candidate, broken, err error) {
	edge, source, err := o.Load(o.Path)
	if err == nil {
		broken = o.unconfirmed(edge.Name, source)
	}
	if err == nil && broken == nil {
		first, err = o.start(edge, revision.Revision{What: startWord, Path: o.Path, Source: source})
		if err == nil {
			return first, nil, nil
		}
	}
	last, none := revision.LastGood(o.StateDir, o.Path)
	if none != nil {
		return Candidate{}, nil, cmp.Or(err, broken)
	}
	good, read, unreadable := o.Parse(last.Source)
	if unreadable == nil {
		last.Source = read
		first, unreadable = o.start(good, last)
	}
	if unreadable != nil {
		return Candidate{}, nil, cmp.Or(err, broken)
	}
	if err == nil && last.Hash == revision.Hash(source) { // what nobody confirmed changed nothing
		return first, nil, nil
	}
	return first, fmt.Errorf("revision %d of %s is in force: mend the file, then selvage apply %s: %w",
		last.ID, last.When.UTC().Format(time.DateTime), o.Path, cmp.Or(err, broken)), nil
}

// unconfirmed is why the file is not to be used: it holds what was to go back by itself.
func (o Options) unconfirmed(name string, source config.Source) error {
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
	return fmt.Errorf("%s holds revision %d, which nobody confirmed", o.Path, list[i].ID)
}

// manyRules take more memory to read and compile than the runtime should keep for itself.
const manyRules = 10_000

// FreeMemory gives that memory back, when one of the configurations has that many.
func FreeMemory(configs ...overlay.Edge) {
	for _, c := range configs {
		if c.Firewall != nil && len(c.Firewall.Rules) >= manyRules {
			debug.FreeOSMemory()
			return
		}
	}
}
