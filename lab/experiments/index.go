package experiments

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/index"
)

// Index is the command line that writes a page over a directory of runs.
type Index struct {
	Dir    string `arg:"" default:"results" help:"Directory with runs; ${default}."`
	Output string `short:"o" placeholder:"FILE" help:"Output file, - for standard output; index.html in the directory by default."`
}

// deepest is how far below the directory runs are looked for.
const deepest = 4

// mostRuns is how many runs a page has: each result is read whole.
const mostRuns = 1000

// Run reads all results and writes the page. Files that are no results of this version are listed on it.
func (c *Index) Run(console *experiment.Console) error {
	files, err := results(c.Dir)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s: no %s within %d directories below it", c.Dir, experiment.ResultFile, deepest)
	}
	name := c.Output
	if name == "" {
		name = filepath.Join(c.Dir, "index.html")
	}
	runs, unread := []index.Run{}, []index.Unread{}
	for _, file := range files {
		_, r, e, err := load(file)
		if err != nil {
			unread = append(unread, index.Unread{File: file, Why: strings.TrimPrefix(err.Error(), file+": ")})
			continue
		}
		for i := range r.Samples { // 1000 results have a GB of them, and rows are all that is drawn
			r.Samples[i].Series, r.Samples[i].Latency = nil, nil
		}
		run := index.Run{Link: linkFrom(name, file), Result: r}
		if e.Metrics != nil {
			run.Metric = e.Metric
		}
		runs = append(runs, run)
	}
	return writeTo(console, name, func(w io.Writer) error { return index.Page(w, runs, unread) })
}

// results are the results below a directory.
func results(dir string) (files []string, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch rel, _ := filepath.Rel(dir, path); {
		case err != nil:
			return fmt.Errorf("index: %w", err)
		case entry.IsDir() && strings.Count(rel, string(filepath.Separator)) >= deepest:
			return fs.SkipDir
		case entry.Name() == experiment.ResultFile && !entry.IsDir():
			files = append(files, path)
		}
		if len(files) > mostRuns {
			return fmt.Errorf("%s: more than %d runs; name a directory with fewer", dir, mostRuns)
		}
		return nil
	})
	return files, err
}

// linkFrom is the way from a page to the report beside a result, "" where there is none.
func linkFrom(page, file string) string {
	report := filepath.Join(filepath.Dir(file), experiment.ReportFile)
	if _, err := os.Stat(report); err != nil || page == "-" {
		return ""
	}
	from, errFrom := filepath.Abs(filepath.Dir(page))
	to, errTo := filepath.Abs(report)
	rel, err := filepath.Rel(from, to)
	if errFrom != nil || errTo != nil || err != nil {
		return ""
	}
	return filepath.ToSlash(rel)
}
