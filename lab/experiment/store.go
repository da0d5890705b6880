package experiment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/result"
)

// Files of a run's directory.
const (
	ResultFile = "result.json"
	ReportFile = "report.html"
)

// newRunDir makes the directory of a run that starts now, so that a result
// can be kept when there is one.
func newRunDir(root, experiment string, now time.Time) (string, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", fmt.Errorf("results: %w", err)
	}
	name := filepath.Join(root, DirName(result.Result{Started: now, Experiment: experiment}))
	for i := 1; ; i++ {
		dir := name
		if i > 1 {
			dir = fmt.Sprintf("%s-%d", name, i)
		}
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("results: %w", err)
		}
	}
}

// DirName is the name of a run's directory.
func DirName(r result.Result) string {
	return r.Started.UTC().Format("20060102T150405Z") + "-" + r.Experiment
}

// interrupted is the parameter that says where a run was interrupted.
const interrupted = "interrupted"

// Interrupt writes down where r was interrupted: "round 2 of 5".
func Interrupt(r *result.Result, format string, args ...any) {
	r.Parameters[interrupted] = result.Words(fmt.Sprintf(format, args...))
}

// Conclude computes what follows from the samples: summary and verdict.
func Conclude(e Experiment, r *result.Result) {
	r.Summary = e.Summarise(*r)
	lost := result.Sound(r)
	r.Verdict = e.Verdict(*r)
	if len(lost) > 0 {
		r.Verdict.Findings = append(r.Verdict.Findings, result.Finding{Topic: "Left out", Text: strings.Join(lost, ", ") + ": no numbers came of it"})
	}
	if where := r.Parameters.Text(interrupted); where != "" {
		r.Verdict.Refuse("the run was interrupted in "+where, "Run it again to the end.")
	}
}

// save writes result and report of a run into its directory, and then says so on log.
func save(e Experiment, dir string, r result.Result, log io.Writer) error {
	var written []string
	var errs []error
	for _, file := range []struct {
		name  string
		write func(io.Writer, result.Result) error
	}{{ResultFile, result.Write}, {ReportFile, e.Page}} {
		name := filepath.Join(dir, file.name)
		err := WriteFile(name, func(w io.Writer) error { return file.write(w, r) })
		if err == nil {
			written = append(written, name+"\n")
		}
		errs = append(errs, err)
	}
	fmt.Fprint(log, strings.Join(written, ""))
	return errors.Join(errs...)
}

// WriteFile replaces a file by what write writes, whole or not at all.
func WriteFile(name string, write func(io.Writer) error) error {
	next, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	err = errors.Join(write(next), next.Chmod(0o644), next.Close())
	if err == nil {
		err = os.Rename(next.Name(), name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(next.Name()))
	}
	return nil
}
