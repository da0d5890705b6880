package edge

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
)

// Abandoned is a data path that still forwards, though its edge does not run: it was killed,
// or stopped.
type Abandoned struct {
	Name     string
	Programs int    // attached to interfaces
	Pins     string // the directory that keeps them
}

// AbandonedIn lists the data paths below pinRoot whose edges do not answer in runtimeDir and that no other process drives,
// by name. Empty directories are the defaults.
func AbandonedIn(pinRoot, runtimeDir string) ([]Abandoned, error) {
	pinRoot = datapath.PinRoot(pinRoot)
	programs, err := datapath.Pinned(pinRoot)
	if err != nil || len(programs) == 0 {
		return nil, err
	}
	running, err := api.Running(runtimeDir)
	if err != nil {
		return nil, err
	}
	var list []Abandoned
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		if _, driven := datapath.DriverOf(pinRoot, name); !driven && !slices.Contains(running, name) {
			list = append(list, Abandoned{Name: name, Programs: programs[name], Pins: filepath.Join(pinRoot, name)})
		}
	}
	return list, nil
}

// Error says what goes on, and how to end it.
func (a Abandoned) Error() string {
	programs := fmt.Sprintf("%d programs are", a.Programs)
	if a.Programs == 1 {
		programs = "1 program is"
	}
	return fmt.Sprintf("edge %s is not running, but its data path still forwards (%s attached, pinned in %s) and nothing updates it: "+
		"start the edge again with selvage edge -c FILE, which takes the data path over; or remove it with selvage remove %s", a.Name, programs, a.Pins, a.Name)
}
