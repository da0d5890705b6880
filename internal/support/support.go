package support

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/pseudonym"
)

// mostTime is after how long what there is is written.
const mostTime = 25 * time.Second

// niceness is that of the process while it collects, and of what it starts.
const niceness = 15

// Options say what the archive is about.
type Options struct {
	Edges                         []Edge
	RuntimeDir, StateDir, PinRoot string
	Version                       string
	Host                          string
	Anonymize                     bool
	Users                         []string // names of those who are not to be named then
}

// Archive is what was collected.
type Archive struct {
	dir       string
	at        time.Time
	items     []Item
	originals map[string]string
}

// Collect collects. It takes some seconds, and mostTime at most.
func Collect(ctx context.Context, o Options) (*Archive, error) {
	begin := time.Now()
	beNice()
	ctx, cancel := context.WithTimeout(ctx, mostTime)
	defer cancel()
	c := &collector{&archive{hide: &hider{}}, ctx}
	if o.Anonymize {
		c.hide.names = pseudonym.New(nil)
		c.hide.names.Name("host", o.Host)
		for _, user := range o.Users {
			c.hide.names.Name("user", user)
		}
	}
	list := o.askAll(ctx)
	for _, a := range list {
		c.learn(o, a) // before anything is added
	}
	var all sync.WaitGroup
	all.Go(c.host)
	all.Go(func() { c.doctor(o.RuntimeDir) })
	for part := range slices.Chunk(list, max(1, (len(list)+edgesAtOnce-1)/edgesAtOnce)) {
		all.Go(func() {
			for _, a := range part {
				c.edge(o, a)
			}
		})
	}
	all.Wait()
	return c.finish(o, list, begin)
}

// edgesAtOnce are asked at the same time.
const edgesAtOnce = 4

// askAll asks all edges for their status, some at a time.
func (o Options) askAll(ctx context.Context) []*asked {
	list := make([]*asked, len(o.Edges))
	turns := make(chan struct{}, edgesAtOnce)
	var all sync.WaitGroup
	for i, e := range o.Edges {
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			list[i] = o.ask(ctx, e)
		})
	}
	all.Wait()
	return list
}

// finish adds what is of all items.
func (c *collector) finish(o Options, list []*asked, begin time.Time) (*Archive, error) {
	summary := c.summary(o, list, begin, time.Since(begin))
	c.add("summary.txt", "what to read first", 0, []byte(summary), nil)
	items := c.sorted()
	manifest, err := json.MarshalIndent(map[string]any{
		"version": o.Version, "made": begin.UTC().Format(time.RFC3339), "took_ms": time.Since(begin).Milliseconds(), "anonymized": o.Anonymize, "items": items,
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	index, err := html(c.find("summary.txt"), items)
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	items = append(items, Item{Name: "manifest.json", text: manifest}, Item{Name: "index.html", text: index})
	a := &Archive{dir: "selvage-support-" + begin.UTC().Format("20060102T150405Z"), at: begin, items: items}
	if c.hide.names != nil {
		a.originals = c.hide.names.Originals()
	}
	return a, nil
}

// Name is what the file is to be called unless somebody says otherwise.
func (a *Archive) Name() string { return a.dir + ".tar.gz" }

// Items are what it has, and what could not be had.
func (a *Archive) Items() []Item { return a.items }

// Save writes it to a file that is not there yet and that only its owner may read.
func (a *Archive) Save(path string) error {
	return save(path, a.Write)
}

// Write writes it.
func (a *Archive) Write(to io.Writer) error { return write(to, a.dir, a.items, a.at) }

// SaveOriginals writes what the pseudonyms stand for, which is not for who gets the archive.
func (a *Archive) SaveOriginals(path string) error {
	return save(path, func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(maps.Clone(a.originals))
	})
}

// beNice has all threads of the process, and what they start, yield to others. What cannot be had is gone without.
func beNice() {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, task := range tasks {
		if tid, err := strconv.Atoi(task.Name()); err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, tid, niceness)
		}
	}
}
