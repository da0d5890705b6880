package edge

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
)

// Abandoned is a data path that still forwards, though its edge does not run: it was killed,
// or stopped.
type Abandoned struct {
	Name string
	Pins string // the directory that keeps it
	datapath.Attached
}

// AbandonedIn lists the data paths below pinRoot whose edges do not answer in runtimeDir and that no other process drives,
// by name. Empty directories are the defaults.
func AbandonedIn(pinRoot, runtimeDir string) ([]Abandoned, error) {
	pinRoot = datapath.PinRoot(pinRoot)
	attached, err := datapath.Pinned(pinRoot)
	if err != nil || len(attached) == 0 {
		return nil, err
	}
	running, err := api.Running(runtimeDir)
	if err != nil {
		return nil, err
	}
	var list []Abandoned
	for _, name := range slices.Sorted(maps.Keys(attached)) {
		if _, driven := datapath.DriverOf(pinRoot, name); !driven && !slices.Contains(running, name) {
			list = append(list, Abandoned{Name: name, Pins: filepath.Join(pinRoot, name), Attached: attached[name]})
		}
	}
	return list, nil
}

// Error says what goes on, and how to end it.
func (a Abandoned) Error() string {
	programs := fmt.Sprintf("%d programs", a.Programs)
	if a.Programs == 1 {
		programs = "1 program"
	}
	return fmt.Sprintf("edge %s does not run; its data path has forwarded since %s (%s at interfaces, pinned in %s), and nothing updates it: %s",
		a.Name, a.Since.UTC().Format(time.RFC3339), programs, a.Pins, api.RestartOrRemove("FILE", a.Name))
}
