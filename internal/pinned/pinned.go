// Package pinned answers for an edge that does not run, from what its data path has pinned.
//
// Its one invariant: it changes nothing. Maps are opened for reading alone, no lock is taken and the host is only
// looked at, so an edge that starts meanwhile is not disturbed.
//
// Do not use it for an edge that runs, which knows more (edge), nor to remove one that does not (edge.Remove).
package pinned

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/revision"
)

// Options say which edge is read. Empty directories are the defaults.
type Options struct{ Name, PinRoot, StateDir string }

// Edge is an edge that does not run, at the time of Open.
type Edge struct {
	name, dir string
	reader    *datapath.Reader
	hooks     []datapath.Hook
	elsewhere bool // its interfaces are not those of this network namespace

	config     *overlay.Edge // the last that was in force, which gives names; nil where it is not known
	configPath string
	configWhy  error // why it is not known
	attached   map[string]plan.Attachment
	segments   []overlay.Segment // of config

	server *server
}

// Open reads which tables the edge has pinned. An error says why they cannot be read.
func Open(o Options) (*Edge, error) {
	root := datapath.PinRoot(o.PinRoot)
	e := &Edge{name: o.Name, dir: filepath.Join(root, o.Name), attached: map[string]plan.Attachment{}}
	e.readConfig(cmp.Or(o.StateDir, api.DefaultStateDir))
	if err := e.read(root); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			err = fmt.Errorf("%w: only root may, try sudo", err)
		}
		return nil, fmt.Errorf("edge %s cannot be read from its pins: %w", o.Name, err)
	}
	e.server = serve(e.handler())
	return e, nil
}

// AreHidden reports whether this user may not see whether there are pins below a directory, "" for the default.
func AreHidden(pinRoot string) bool {
	_, err := os.ReadDir(datapath.PinRoot(pinRoot))
	return errors.Is(err, fs.ErrPermission)
}

// readConfig reads the newest revision. Numbers get names by it, so one that is newer or older than the tables names
// fewer, but none wrongly.
func (e *Edge) readConfig(stateDir string) {
	r, err := revision.Newest(stateDir, e.name)
	if err == nil {
		var config overlay.Edge
		if config, err = r.Source.Edge(); err == nil {
			e.config, e.configPath = &config, r.Path
		}
	}
	e.configWhy = err
}

func (e *Edge) read(root string) (err error) {
	cfg := datapath.Config{Name: e.name, PinRoot: root, FlowCache: overlay.FlowCache{Enabled: true}}
	if e.config != nil {
		cfg.FlowCache, cfg.FDB, cfg.Transit = e.config.FlowCache, e.config.FDB, plan.HasTransit(*e.config)
	}
	if e.reader, err = datapath.OpenReader(cfg); err != nil {
		return err
	}
	e.elsewhere = e.reader.IsElsewhere()
	if e.hooks, err = e.reader.Hooks(); err == nil {
		err = e.recognise()
	}
	if err != nil {
		return errors.Join(err, e.reader.Close())
	}
	return nil
}

// recognise gives names to numbers.
func (e *Edge) recognise() error {
	var t fib.Tables
	if e.config != nil {
		links, err := e.links()
		if err != nil {
			return err
		}
		e.segments = plan.AllSegments(*e.config, host.State{Links: links})
		t.Segments = e.segments
		for _, r := range e.config.Routers {
			t.Routers = append(t.Routers, fib.Router{Name: r.Name})
		}
		for _, a := range plan.Attachments(*e.config) {
			e.attached[a.Name] = a
			if link, ok := links[a.Interface]; ok {
				t.Ports = append(t.Ports, fib.Port{Name: a.Name, Ifindex: link.Index, VLAN: a.VLAN, Segment: a.Segment})
			}
		}
	}
	return e.reader.Recognise(t, func(ifindex int) string { return e.device(ifindex).Name })
}

// links are the interfaces that the configuration names, by its names.
func (e *Edge) links() (map[string]host.Link, error) {
	if e.elsewhere {
		return nil, nil
	}
	h, err := host.Open("", slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, fmt.Errorf("look at the host: %w", err)
	}
	state, err := h.Observe(host.Want{Interfaces: plan.Want(*e.config).Interfaces})
	return state.Links, errors.Join(err, h.Close())
}

// device is the interface of a number; zero for one that is not known.
func (e *Edge) device(ifindex int) net.Interface {
	if e.elsewhere {
		return net.Interface{}
	}
	dev, err := net.InterfaceByIndex(ifindex)
	if err != nil {
		return net.Interface{}
	}
	return *dev
}

// Notes say what the answers are worth, a line each; the first says that the edge does not run.
func (e *Edge) Notes() []string {
	notes := []string{fmt.Sprintf("edge %s does not run; its data path forwards: read from its pins; %s", e.name, api.RestartOrRemove(cmp.Or(e.configPath, "FILE"), e.name))}
	for _, what := range e.doubts() {
		notes = append(notes, "edge "+e.name+": "+what)
	}
	return notes
}

// doubts are why some of the answers may be less than an edge that runs would give.
func (e *Edge) doubts() (list []string) {
	if others := e.reader.OtherABIs(); len(others) > 0 {
		list = append(list, fmt.Sprintf("%s also has tables of other releases (ABI %s): an upgrade was not finished, and packets may go by those",
			e.dir, strings.Trim(fmt.Sprint(others), "[]")))
	}
	if e.elsewhere {
		list = append(list, "it is of another network namespace: interfaces are shown by number; ask there for names (nsenter --net=/run/netns/NAME)")
	}
	if e.config == nil {
		list = append(list, fmt.Sprintf("its configuration is not known (%v): ports are shown by interface, segments by VNI", e.configWhy))
	}
	return list
}

// Close lets go of the tables.
func (e *Edge) Close() error { return errors.Join(e.server.close(), e.reader.Close()) }
