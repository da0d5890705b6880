package support

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/revision"
)

const (
	// documentTime is how long one answer of an edge may take, and statusTime the first: who gives that none is asked no more.
	documentTime = 4 * time.Second
	statusTime   = 3 * time.Second
	// mostWalked is how many entries a table may have that is looked at: the edge walks all of it for the first rows.
	mostWalked = 20_000
	// firstRows of tables are taken.
	firstRows = 200
	logLines  = 3000
)

// Edge is one that the archive is about.
type Edge struct {
	Name    string
	Running bool  // it takes connections; a hung one does too
	Gone    error // what goes on without it, if it does not run; nil: nothing
}

// document is one of an edge's API.
type document struct {
	name, path string
	// walks says how many entries the edge walks for it; nil: few.
	walks func(api.Status) int
}

func fdbEntries(s api.Status) int { return s.FDB.Used }
func flowEntries(s api.Status) int {
	n := s.Flows.Used
	if s.Transit != nil {
		n += s.Transit.Used
	}
	return n
}

func bgpRoutes(s api.Status) int {
	if s.BGP == nil {
		return 0
	}
	return s.BGP.Used + s.BGP.Unused
}

var documents = []document{
	{"config.json", "config", nil}, {"history.json", "config/history", nil}, {"ports.json", "ports", nil},
	{"interfaces.json", "interfaces", nil}, {"teps.json", "teps", nil},
	{"fdb.json", "fdb?limit=" + strconv.Itoa(firstRows), fdbEntries}, {"neighbours.json", "neighbours?limit=" + strconv.Itoa(firstRows), fdbEntries},
	{"routes.json", "routes", bgpRoutes}, {"flows.json", "flows?limit=" + strconv.Itoa(firstRows), flowEntries}, {"flow-cache.json", "flow-cache", nil},
	{"drops.json", "drops", nil}, {"drops-by-port.json", "drops/owners?by=port", nil}, {"drops-by-segment.json", "drops/owners?by=segment", nil},
	{"drops-by-remote.json", "drops/owners?by=remote", nil}, {"limits.json", "limits", nil}, {"firewall.json", "firewall", nil}, {"rules.json", "rules", nil},
	{"egress.json", "egress", nil}, {"nat.json", "nat", nil}, {"bgp.json", "bgp", nil}, {"bgp-moves.json", "bgp/moves", nil},
	{"bgp-routes-unused.json", "bgp/routes?unused=true", bgpRoutes}, {"events.json", "events", nil}, {"log.json", "log", nil},
	{"goroutines.txt", "debug/goroutines", nil}, {"memory.txt", "debug/memory", nil}, {"metrics.txt", "/metrics", nil},
}

// asked is an edge, and what is known of it before anything is added.
type asked struct {
	Edge
	client *api.Client // nil: nobody answers
	status api.Status
	err    error // why there is no status
	took   time.Duration
}

// ask asks an edge for its status.
func (o Options) ask(ctx context.Context, e Edge) *asked {
	a := &asked{Edge: e}
	if !e.Running {
		a.err = cmp.Or(e.Gone, errors.New("it does not run, and has left no data path"))
		return a
	}
	started := time.Now()
	client := api.Dial(o.RuntimeDir, e.Name)
	short, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	a.status, a.err = client.Status(short)
	a.took = time.Since(started)
	if a.err != nil {
		a.err = fmt.Errorf("edge %s has not answered within %s, though it takes connections: %w", e.Name, statusTime, a.err)
		return a
	}
	a.client = client
	return a
}

// learn has the secrets of all configurations that an edge has, or had, be hidden.
func (c *collector) learn(o Options, a *asked) {
	paths := map[string]bool{filepath.Join("/etc/selvage", a.Name+".yaml"): true}
	if a.status.Config != "" {
		paths[a.status.Config] = true
	}
	if store, err := revision.Open(o.StateDir, a.Name); err == nil {
		list, _ := store.List() // what cannot be read is not added either
		for _, r := range list {
			if full, err := store.Get(r.ID); err == nil {
				paths[full.Path] = true
				for _, f := range full.Source.Files {
					c.secretsOf(f.Path, f.Text)
				}
			}
		}
	}
	for path := range paths {
		for _, text := range c.configFiles(path) {
			c.secretsOf(text.Path, text.Text)
		}
	}
}

func (c *collector) secretsOf(path string, text []byte) {
	values, _ := config.Confidential(path, text)
	c.hide.learn(values...)
}

// configFiles are the texts of a configuration as it is now: its own file, and what that includes as far as it can be read.
func (c *collector) configFiles(path string) []config.File {
	_, source, _ := config.LoadSource(path) // the text is there also where it is wrong
	if len(source.Files) > 0 {
		return source.Files
	}
	if text, err := readFile(path); err == nil {
		return []config.File{{Path: path, Text: text}}
	}
	return nil
}

// edge adds what there is of one.
func (c *collector) edge(o Options, a *asked) {
	dir := "edges/" + a.Name + "/"
	if a.client != nil {
		text, err := indented(a.status, a.err)
		c.add(dir+"status.json", "/v1/status", a.took, text, err)
		c.documents(dir, a)
	} else {
		c.add(dir+"status.json", "/v1/status", a.took, nil, a.err)
	}
	c.configuration(o, dir, a)
	c.process(o, dir, a)
	c.command(dir+"journal.txt", "journalctl", "--no-pager", "-o", "short-iso-precise", "-n", strconv.Itoa(logLines),
		"_SYSTEMD_UNIT=selvage@"+a.Name+".service", "+", "EDGE="+a.Name)
}

// documents adds those of the API. After one that does not come no other is asked for.
func (c *collector) documents(dir string, a *asked) {
	gone := false
	for _, d := range documents {
		path := d.path
		if !strings.HasPrefix(path, "/") {
			path = "/v1/" + path
		}
		switch {
		case gone:
			c.add(dir+d.name, path, 0, nil, errors.New("not asked: the edge does not answer any more"))
			continue
		case d.walks != nil && d.walks(a.status) > mostWalked:
			c.add(dir+d.name, path, 0, nil, fmt.Errorf("not asked: the edge would walk %d entries; ask it when it is idle", d.walks(a.status)))
			continue
		}
		err := c.do(dir+d.name, path, documentTime, func(ctx context.Context) ([]byte, error) {
			body, err := a.client.Get(ctx, path)
			if wrong := (*api.QueryError)(nil); errors.As(err, &wrong) { // it has no BGP, no firewall
				return []byte(err.Error() + "\n"), nil
			}
			if err != nil {
				return nil, err
			}
			defer body.Close()
			text, err := io.ReadAll(io.LimitReader(body, mostItem+1))
			var lines bytes.Buffer
			if json.Indent(&lines, text, "", " ") == nil {
				text = lines.Bytes()
			}
			return text, err
		})
		gone = errors.Is(err, context.DeadlineExceeded)
	}
}

// configuration adds the file and the revisions. Of a file that is no YAML what follows the names of secret fields is left out.
func (c *collector) configuration(o Options, dir string, a *asked) {
	path := a.status.Config
	var metas []revision.Revision
	err := c.do(dir+"revisions.json", "revisions in "+filepath.Join(o.StateDir, a.Name), 2*time.Second, func(context.Context) ([]byte, error) {
		store, err := revision.Open(o.StateDir, a.Name)
		if err != nil {
			return nil, err
		}
		list, err := store.List()
		return indented(list, err)
	})
	if err == nil && json.Unmarshal([]byte(c.find(dir+"revisions.json")), &metas) == nil && len(metas) > 0 && path == "" {
		path = metas[0].Path
	}
	if path == "" {
		path = filepath.Join("/etc/selvage", a.Name+".yaml")
	}
	for i, f := range c.configFiles(path) {
		text := string(f.Text)
		if _, known := config.Confidential(f.Path, f.Text); !known {
			text = config.Hide(text)
		}
		c.add(fmt.Sprintf("%sconfig/%d-%s", dir, i, filepath.Base(f.Path)), f.Path, 0, []byte(text), nil)
	}
}

// process adds what the kernel says of the process, and what it left in its directories.
func (c *collector) process(o Options, dir string, a *asked) {
	lock := filepath.Join(o.RuntimeDir, a.Name+".lock")
	pid := a.status.PID
	if text, err := readFile(lock); pid == 0 && err == nil {
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	if pid > 0 && a.Running {
		for _, name := range []string{"status", "limits", "cgroup", "cmdline", "stat", "schedstat", "wchan", "stack", "smaps_rollup"} {
			c.file(dir+"process/"+name+".txt", fmt.Sprintf("/proc/%d/%s", pid, name))
		}
	}
	for _, path := range api.RuntimeFiles(o.RuntimeDir, a.Name) {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			c.file(dir+"runtime/"+strings.TrimPrefix(filepath.Ext(path), ".")+".txt", path)
		}
	}
	_ = c.do(dir+"pins.txt", filepath.Join(o.PinRoot, a.Name), time.Second, func(context.Context) ([]byte, error) {
		var out strings.Builder
		err := filepath.WalkDir(filepath.Join(o.PinRoot, a.Name), func(path string, _ fs.DirEntry, err error) error {
			if out.Len() > mostItem {
				return fs.SkipAll
			}
			fmt.Fprintln(&out, path)
			return err
		})
		return []byte(out.String()), err
	})
}

// events are the newest of an edge, the newest last.
func (c *collector) events(o Options, name string) []event.Event {
	var list api.EventList
	if json.Unmarshal([]byte(c.find("edges/"+name+"/events.json")), &list) == nil && len(list.Events) > 0 {
		return list.Events
	}
	all, _ := event.ReadFile(filepath.Join(o.RuntimeDir, name+".events")) // without them the summary has none
	return all
}
