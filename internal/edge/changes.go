package edge

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/background"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/problem"
)

// changes tells what became of links, ports, paths and problems, by what was told last. Whoever changes them tells nothing.
type changes struct {
	e   *edge
	log *slog.Logger
	cfg datapath.Config // of the data path in force

	mu       sync.Mutex // held for nothing that waits: flows are steered by those who call
	config   overlay.Edge
	links    map[string]link // by the name in the configuration
	paths    map[overlay.Pair]string
	problems []problem.Problem // by the loop
}

// link is the state of one that was told.
type link struct {
	index int
	up    bool
}

func newChanges(e *edge) *changes {
	return &changes{e: e, log: e.log, cfg: dataPathConfig(e.state.config, e.opts), links: map[string]link{}, paths: map[overlay.Pair]string{}}
}

// eventsFile is where events are kept for a later process.
func (e *edge) eventsFile() string {
	return filepath.Join(e.opts.RuntimeDir, e.state.config.Name+".events")
}

// keepEvents keeps events for a later process until the returned function is called: by an edge that removes its data
// path, no longer.
func (e *edge) keepEvents() (end func(removed bool) error) {
	path, written := e.eventsFile(), make(chan struct{})
	stop := background.Start(context.Background(), func(ctx context.Context) {
		defer close(written)
		e.events.Keep(ctx, path, func(err error) { e.faults.Report(keepEvents, err) })
	})
	return func(removed bool) error {
		e.events.End()
		<-written
		stop()
		if removed {
			return os.Remove(path)
		}
		return nil
	}
}

// stopping tells that the edge stops. Those who follow its events get nothing after it.
func (e *edge) stopping(remove bool) {
	text := "edge stops, its data path keeps forwarding"
	switch {
	case remove && e.pins.shortLived && !e.opts.removesAtExit():
		text = "edge stops, and so does its data path: its pins would end with this process"
	case remove:
		text = "edge stops"
	case e.pins.shortLived:
		text = "edge stops, its data path keeps forwarding only until this mount namespace, which has its pins, ends"
	}
	e.log.Info(text, event.Is(event.EdgeStopping))
	e.events.End()
}

// opened tells of the data path that an edge starts with.
func (c *changes) opened(adopted bool) {
	if adopted {
		c.log.Info("data path adopted: it was forwarding already", event.Is(event.DataPathAdopted))
	} else {
		c.log.Info("data path loaded", event.Is(event.DataPathLoaded))
	}
}

// replaced tells of the data path that took the place of another.
func (c *changes) replaced(cfg datapath.Config) {
	for _, r := range resized("", reflect.ValueOf(c.cfg), reflect.ValueOf(cfg)) {
		c.log.Info("table resized", event.Is(event.TableResized), "table", r.name, "from", r.was, "to", r.is)
	}
	c.cfg = cfg
	c.log.Info("data path replaced by one for the changed configuration", event.Is(event.DataPathReplaced))
}

type size struct {
	name    string
	was, is uint64
}

// resized are the sizes by which two configurations of a data path differ.
func resized(name string, was, is reflect.Value) (list []size) {
	switch was.Kind() {
	case reflect.Pointer:
		if !was.IsNil() && !is.IsNil() {
			list = resized(name, was.Elem(), is.Elem())
		}
	case reflect.Struct:
		for i := range was.NumField() {
			if f := was.Type().Field(i); f.IsExported() {
				list = append(list, resized(strings.Trim(name+"."+strings.ToLower(f.Name[:1])+f.Name[1:], "."), was.Field(i), is.Field(i))...)
			}
		}
	case reflect.Uint32:
		if was.Uint() != is.Uint() {
			list = append(list, size{name, was.Uint(), is.Uint()})
		}
	}
	return list
}

// configured tells which ports another configuration adds, changes and removes.
func (c *changes) configured(was, is overlay.Edge) {
	before := map[string]overlay.Port{}
	for _, p := range was.Ports {
		before[p.Name] = p
	}
	var added, changed, removed []overlay.Port
	for _, p := range is.Ports {
		switch old, ok := before[p.Name]; {
		case !ok:
			added = append(added, p)
		case !reflect.DeepEqual(old, p):
			changed = append(changed, p)
		}
		delete(before, p.Name)
	}
	for _, p := range was.Ports {
		if _, ok := before[p.Name]; ok {
			removed = append(removed, p)
		}
	}
	c.ports("port removed", event.PortRemoved, removed)
	c.ports("port changed", event.PortChanged, changed)
	c.ports("port added", event.PortAdded, added)
}

// mostPorts are told one by one.
const mostPorts = 32

func (c *changes) ports(text string, kind event.Kind, list []overlay.Port) {
	for i, p := range list {
		if i == mostPorts {
			c.log.Info(text+": and more", event.Is(kind), "ports", len(list)-i)
			return
		}
		c.log.Info(text, event.Is(kind), "port", p.Name, "interface", p.Interface)
	}
}

// look tells what became of links, ports and paths.
func (c *changes) look(hostState host.State) {
	config := c.e.state.config
	c.mu.Lock()
	c.config = config
	c.mu.Unlock()
	c.lookPaths()
	ports := map[string]string{} // by interface
	for _, p := range config.Ports {
		ports[p.Interface] = p.Name
	}
	wanted := plan.Want(config).Interfaces
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range wanted {
		l := hostState.Links[name]
		c.set(name, ports[name], link{l.Index, l.Up})
	}
	for name := range c.links {
		if !slices.Contains(wanted, name) {
			delete(c.links, name)
		}
	}
}

// set tells of a link that is another than before. mu is held.
func (c *changes) set(name, port string, is link) {
	was, known := c.links[name]
	c.links[name] = is
	up, down, text, args := event.LinkUp, event.LinkDown, "interface", []any{"interface", name}
	if port != "" {
		up, down, text, args = event.PortUp, event.PortDown, "port", []any{"port", port, "interface", name}
	}
	switch {
	case is.up && !was.up:
		c.log.Info(text+" is up", append(args, event.Is(up))...)
	case !is.up && (was.up || !known):
		why := "down"
		if is.index == 0 {
			why = "gone"
			if !known {
				why = "absent"
			}
		}
		c.log.Warn(text+" is "+why, append(args, event.Is(down))...)
	}
}

// linkLost tells of a link that is down, and of the paths by it, at once.
func (c *changes) linkLost(ifindex int) {
	c.lookPaths()
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, l := range c.links {
		if l.index == ifindex && l.up {
			port := ""
			for _, p := range c.config.Ports {
				if p.Interface == name {
					port = p.Name
				}
			}
			c.set(name, port, link{ifindex, false})
		}
	}
}

// lookPaths tells which paths are out of use, or in use again.
func (c *changes) lookPaths() {
	c.mu.Lock()
	defer c.mu.Unlock()
	inForce := c.e.writer.InForce().Paths.PathPolicies
	now := make(map[overlay.Pair]string, len(inForce.Paths))
	for _, p := range inForce.Paths {
		was, known := c.paths[p.Pair]
		now[p.Pair] = p.Down
		args := []any{"remote", remoteName(c.config, p), "address", p.Edge, "path", p.Pair}
		switch {
		case p.Down != "" && was == "":
			c.log.Warn("path to a remote is out of use", append(args, event.Is(event.PathDown), "found", foundBy(p.Down), "why", p.Down)...)
		case p.Down == "" && was != "":
			c.log.Info("path to a remote is in use again", append(args, event.Is(event.PathUp))...)
		case p.Down == "" && !known && p.NextMAC != (overlay.MAC{}):
			c.log.Info("path to a remote is in use", append(args, event.Is(event.PathUp))...)
		case p.Down == "" && !known:
			delete(now, p.Pair) // it is told once its next hop answers
		}
	}
	c.paths = now
}

func remoteName(config overlay.Edge, p plan.TunnelPath) string {
	if name := config.Remote(p.Edge).Name; name != "" {
		return name
	}
	return p.Edge.String()
}

// foundBy is what found that a path is out of use, by the words of plan.
func foundBy(why string) string {
	switch {
	case strings.HasPrefix(why, "interface "):
		return "link"
	case strings.HasPrefix(why, "next hop "):
		return "next-hop"
	}
	return "bfd"
}

// lookProblems tells of problems that began or ended, of those that nobody else tells of.
func (c *changes) lookProblems() {
	now := c.e.watchedProblems()
	alarm.LogKinds(c.log, c.problems, now)
	c.problems = now
}

// Faults of events.
const (
	readEvents = "read the events of a former process"
	keepEvents = "keep events for a later process"
)
