package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/replace"
)

// savedDrain is a drain as it outlasts the process and a reboot. A clock of the wall may be set
// meanwhile, so times are those since the boot.
type savedDrain struct {
	Drain    Drain         `json:"drain"`
	Boot     string        `json:"boot"`     // the kernel's id of it
	Asked    time.Duration `json:"asked"`    // since the boot
	Deadline time.Duration `json:"deadline"` // likewise
}

// bootClock says which boot it is, and how long ago.
func bootClock() (id string, since time.Duration, err error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", 0, err
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return "", 0, fmt.Errorf("read the clock: %w", err)
	}
	return string(bytes.TrimSpace(text)), time.Duration(now.Nano()), nil
}

// saveDrain keeps a drain; nil is none.
func saveDrain(file string, d *Drain) error {
	if d == nil {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	id, since, err := bootClock()
	if err != nil {
		return err
	}
	now := time.Now()
	text, err := json.Marshal(savedDrain{*d, id, since + d.Asked.Sub(now), since + d.Deadline.Sub(now)})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return replace.File(file, append(text, '\n'))
}

// loadDrain is the drain that was kept, nil without one. After a reboot it is over but for its
// end: a gateway that was drained for the reboot serves again when it is told to.
func loadDrain(file string) (d *Drain, rebooted bool, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	var was savedDrain
	if err := json.Unmarshal(text, &was); err != nil {
		return nil, false, fmt.Errorf("%s: %w", file, err)
	}
	id, since, err := bootClock()
	if err != nil {
		return nil, false, err
	}
	if was.Boot != id {
		was.Drain.Done = true
		return &was.Drain, true, nil
	}
	now := time.Now()
	was.Drain.Asked, was.Drain.Deadline = now.Add(was.Asked-since), now.Add(was.Deadline-since)
	return &was.Drain, false, nil
}
