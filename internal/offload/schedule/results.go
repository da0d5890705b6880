package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"slices"

	"github.com/selvage/selvage/internal/offload"
	"github.com/selvage/selvage/internal/overlay"
)

// keptOffload is a result as it is remembered over restarts.
type keptOffload struct {
	Local  netip.Addr     `json:"local"`
	Remote netip.Addr     `json:"remote"`
	Result offload.Result `json:"result"`
}

// Load reads what a previous process kept in a file, where this one does too. It comes before the
// host is changed.
func (o *Probes) Load(file string) { o.options.Report(rememberProbes, o.load(file)) }

func (o *Probes) load(file string) error {
	o.file = file
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var kept []keptOffload
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: paths are probed again", file, err)
	}
	for _, k := range kept {
		o.paths[overlay.Pair{Local: k.Local, Remote: k.Remote}] = &probedPath{result: &k.Result}
	}
	return nil
}

// save writes the results.
func (o *Probes) save() error {
	kept := []keptOffload{}
	o.mu.Lock()
	for _, pair := range slices.SortedFunc(maps.Keys(o.paths), overlay.Pair.Compare) {
		if r := o.paths[pair].result; r != nil {
			kept = append(kept, keptOffload{pair.Local, pair.Remote, *r})
		}
	}
	o.mu.Unlock()
	return writeJSON(o.file, kept)
}

// writeJSON replaces a file at once.
func writeJSON(path string, document any) error {
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
