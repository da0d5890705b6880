package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/selvage/selvage/internal/namespace"
	"github.com/selvage/selvage/internal/replace"
)

// record is the file of what Hold changed. It is written before a change and
// after its undoing, so that a process that was killed leaves a true one.
type record struct {
	path string
	// Namespace is the cookie of the network namespace that the changes are in.
	Namespace uint64        `json:"namespace"`
	NextHops  []heldNextHop `json:"next_hops"`
	Promisc   []heldLink    `json:"promisc"`
	// ChecksumDevices are UDP ports; the device of each has the name of its port.
	ChecksumDevices []uint16 `json:"checksummers"`
	// GRODevice is the name of the pair.
	GRODevice string `json:"coalescer"`
	// Offloads are features as they were set, the other way round than before.
	Offloads []heldOffload `json:"offloads,omitempty"`
}

type heldNextHop struct {
	NextHop
	Created bool `json:"created"` // there was no entry before
}

type heldLink struct {
	Ifindex   int    `json:"ifindex"`
	Interface string `json:"interface"`
}

// readRecord reads the file at path. One of another namespace (or of before a
// reboot) is about links that are not ours to change, and is not taken over.
func readRecord(path string, here uint64) (*record, error) {
	r := &record{path: path, Namespace: here}
	old, err := parseRecord(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	if old.Namespace == here {
		r.NextHops, r.Promisc = old.NextHops, old.Promisc
		r.ChecksumDevices, r.GRODevice, r.Offloads = old.ChecksumDevices, old.GRODevice, old.Offloads
	}
	return r, nil
}

// IsElsewhere reports whether a record of host changes is of another network namespace than the
// calling thread's, or of before a reboot. One that is not there is not.
func IsElsewhere(path string) (bool, error) {
	r, err := parseRecord(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && r.Namespace != namespace.Cookie(), err
}

// parseRecord is the record as the file has it, whosever it is.
func parseRecord(path string) (r record, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return r, fmt.Errorf("record of host changes: %w", err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("record of host changes %s is damaged, remove it: %w", path, err)
	}
	return r, nil
}

func (r *record) empty() bool {
	return len(r.NextHops) == 0 && len(r.Promisc) == 0 && len(r.ChecksumDevices) == 0 && r.GRODevice == "" && len(r.Offloads) == 0
}

func (r *record) addNextHop(hop heldNextHop) error {
	if slices.ContainsFunc(r.NextHops, func(h heldNextHop) bool { return h.NextHop == hop.NextHop }) {
		return nil
	}
	r.NextHops = append(r.NextHops, hop)
	return r.write()
}

func (r *record) dropNextHop(hop NextHop) error {
	r.NextHops = slices.DeleteFunc(r.NextHops, func(h heldNextHop) bool { return h.NextHop == hop })
	return r.write()
}

func (r *record) addPromisc(link heldLink) error {
	if slices.Contains(r.Promisc, link) {
		return nil
	}
	r.Promisc = append(r.Promisc, link)
	return r.write()
}

func (r *record) dropPromisc(ifindex int) error {
	r.Promisc = slices.DeleteFunc(r.Promisc, func(l heldLink) bool { return l.Ifindex == ifindex })
	return r.write()
}

func (r *record) addChecksumDevice(port uint16) error {
	if slices.Contains(r.ChecksumDevices, port) {
		return nil
	}
	r.ChecksumDevices = append(r.ChecksumDevices, port)
	return r.write()
}

// othersHave reports whether an edge that has its record in the same directory holds the device of a port here.
func (r *record) othersHave(port uint16) bool {
	paths, err := filepath.Glob(filepath.Join(filepath.Dir(r.path), "*"+filepath.Ext(r.path)))
	if err != nil {
		return true
	}
	return slices.ContainsFunc(paths, func(path string) bool {
		if path == r.path {
			return false
		}
		other, err := parseRecord(path)
		return err != nil && !errors.Is(err, fs.ErrNotExist) || other.Namespace == r.Namespace && slices.Contains(other.ChecksumDevices, port)
	})
}

func (r *record) dropChecksumDevice(port uint16) error {
	r.ChecksumDevices = slices.DeleteFunc(r.ChecksumDevices, func(p uint16) bool { return p == port })
	return r.write()
}

func (r *record) setGRODevice(name string) error {
	r.GRODevice = name
	return r.write()
}

// write replaces the file at once, so that a reader never sees half of it.
func (r *record) write() error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("record of host changes: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(r.path), 0o755); err != nil {
		return fmt.Errorf("record of host changes: %w", err)
	}
	if err := replace.File(r.path, data); err != nil {
		return fmt.Errorf("record of host changes: %w", err)
	}
	return nil
}

func (r *record) remove() error {
	if err := os.Remove(r.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("record of host changes: %w", err)
	}
	return nil
}
