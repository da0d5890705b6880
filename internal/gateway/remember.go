package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/replace"
)

// remembered is what an edge wants to know of gateways after a restart of its process.
type remembered struct {
	Drain *Drain       `json:"drain,omitempty"`
	Gone  []netip.Addr `json:"gone,omitempty"`
}

// Save writes to the file of Join what changed since it was written.
func (r *Role) Save() error {
	r.saving.Lock()
	defer r.saving.Unlock()
	r.mu.Lock()
	now := remembered{Drain: r.drain}
	for member, j := range r.states {
		if j.State == nat.Gone && member != r.self {
			now.Gone = append(now.Gone, member)
		}
	}
	slices.SortFunc(now.Gone, netip.Addr.Compare)
	same, file, drainFile := reflect.DeepEqual(now, r.saved), r.file, r.drainFile
	r.mu.Unlock()
	if same {
		return nil
	}
	if err := errors.Join(writeJSON(file, now), saveDrain(drainFile, now.Drain)); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saved = now
	return nil
}

// Join begins to be one of the gateways, with what a former process wrote to the file, if there
// was one. What that knew of others counts while its data path does: goesOn. A drain outlasts a
// reboot in a file of its own.
func (r *Role) Join(file, drainFile string, goesOn bool) error {
	r.mu.Lock()
	r.joinBy, r.file, r.drainFile = time.Now().Add(joinTimeout), file, drainFile
	r.mu.Unlock()
	var was remembered
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &was)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", file, err)
	}
	kept, rebooted, err := loadDrain(drainFile)
	if err != nil {
		return err
	}
	if kept != nil { // otherwise a process of a build that kept none may have one
		was.Drain = kept
	}
	if rebooted {
		r.log.Warn("this gateway was drained before the reboot and stays so: selvage undrain ends that", "asked", was.Drain.Asked)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drain, r.saved = was.Drain, was
	r.Claims.begin(goesOn)
	r.remembered = make(map[netip.Addr]bool)
	for _, member := range was.Gone {
		r.remembered[member] = goesOn
	}
	return nil
}

// writeJSON replaces a file at once.
func writeJSON(path string, document any) error {
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	return replace.File(path, append(text, '\n'))
}
