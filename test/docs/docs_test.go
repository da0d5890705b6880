package docs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const root = "../.."

// setup are programs that prepare a machine or filter output; what they do is not
// ours to test.
var setup = []string{"cd", "git", "go", "apt-get", "cat", "head", "jq", "less"}

// document is a Markdown file, its path relative to root.
type document struct {
	path   string
	blocks []block
	prose  []string
}

func (d document) at(line int) string { return fmt.Sprintf("%s:%d", d.path, line) }

func documents(t *testing.T) []document {
	t.Helper()
	var found []document
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", ".cache", "bin", "results", "testdata"}, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		blocks, prose := split(string(text))
		found = append(found, document{path: name, blocks: blocks, prose: prose})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// binary is the selvage that SELVAGE_TEST_BINARY names, or is built once, into a folder that TestMain removes. selvage-lab is beside it.
var binary = sync.OnceValues(func() (string, error) {
	if built := os.Getenv("SELVAGE_TEST_BINARY"); built != "" {
		return built, nil
	}
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", buildDir, root+"/cmd/selvage", root+"/cmd/selvage-lab").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build selvage: %w\n%s", err, out)
	}
	return filepath.Join(buildDir, "selvage"), nil
})

var buildDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "selvage-docs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	buildDir = dir
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// shell runs a line with the built selvage in PATH, as a reader would.
func shell(ctx context.Context, dir, line string) (output string, status int, err error) {
	selvage, err := binary()
	if err != nil {
		return "", 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(selvage)+":"+os.Getenv("PATH"))
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return string(out), exit.ExitCode(), nil
	}
	return string(out), 0, err
}

// TestCommands checks every command that is shown; blocks marked run are also
// run by TestRun, those marked lab by TestLab.
func TestCommands(t *testing.T) {
	covered := coverage(t)
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			marked, _, err := b.run()
			if b.lang != "console" && b.lang != "sh" {
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", d.at(b.line), err)
			}
			for _, c := range b.commands() {
				commands, err := simple(c.text)
				if err != nil {
					t.Errorf("%s: %v", d.at(c.line), err)
				}
				for _, words := range commands {
					checkCommand(t, d.at(c.line), words, marked || b.inLab() || covered.by(words))
				}
			}
		}
	}
	for _, command := range covered.unused() {
		t.Errorf("commands.txt: no document shows %q any more", command)
	}
}

func checkCommand(t *testing.T, at string, words []string, runs bool) {
	t.Helper()
	switch program := words[0]; {
	case program == "make":
		for _, target := range words[1:] {
			if !strings.Contains(target, "=") && !hasTarget(t, target) {
				t.Errorf("%s: the Makefile has no target %s", at, target)
			}
		}
		return
	case slices.Contains(setup, program):
		return
	case strings.Contains(program, "/"):
		if _, err := os.Stat(filepath.Join(root, program)); err != nil && !filepath.IsAbs(program) {
			t.Errorf("%s: %v", at, err)
		}
		return
	case program == "selvage":
		if err := parses(t.Context(), words); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
	if !runs && !slices.Contains(words, "--help") {
		t.Errorf("%s: no test runs %q; mark the block run, or name its test in test/docs/commands.txt", at, strings.Join(words, " "))
	}
}

func hasTarget(t *testing.T, target string) bool {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(target) + `:`).Match(makefile)
}

// parsed has the answers of parses: pages show many commands more than once.
var parsed = map[string]error{}

// parses asks the real parser: with --help a command does nothing, but its
// name, flags and their values are still checked.
func parses(ctx context.Context, words []string) (err error) {
	line := strings.Join(words, " ")
	if err, known := parsed[line]; known {
		return err
	}
	defer func() { parsed[line] = err }()
	selvage, err := binary()
	if err != nil {
		return err
	}
	args := slices.Clone(words[1:])
	end := len(args)
	if i := slices.Index(args, "--"); i >= 0 {
		end = i
	}
	cmd := exec.CommandContext(ctx, selvage, slices.Insert(args, end, "--help")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%q is not accepted: %w\n%s", line, err, out)
	}
	return nil
}

// TestRun runs the blocks marked run.
func TestRun(t *testing.T) {
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			if marked, exit, err := b.run(); marked && err == nil {
				t.Run(d.at(b.line), func(t *testing.T) { runBlock(t, d, b, exit) })
			}
		}
	}
}

func runBlock(t *testing.T, d document, b block, exit int) {
	dir := t.TempDir()
	if err := errors.Join(os.CopyFS(filepath.Join(dir, "examples"), os.DirFS(root+"/examples")), os.CopyFS(filepath.Join(dir, "deploy"), os.DirFS(root+"/deploy"))); err != nil {
		t.Fatal(err)
	}
	commands := b.commands()
	for i, c := range commands {
		want := 0
		if i == len(commands)-1 {
			want = exit
		}
		output, status, err := shell(t.Context(), dir, c.text)
		if err != nil || status != want {
			t.Fatalf("%s: %s: exit status %d (%v), want %d:\n%s", d.at(c.line), c.text, status, err, want, output)
		}
		if missing := firstMissing(c.output, output); missing != "" {
			t.Errorf("%s: %s: does not print, there, %q; it prints:\n%s", d.at(c.line), c.text, missing, output)
		}
	}
}

// firstMissing returns the first line of want that does not come in got, in
// order. "..." stands for anything, also within a line.
func firstMissing(want []string, got string) string {
	return firstUnmatched(want, got, regexp.QuoteMeta)
}

// firstUnmatched is firstMissing with another pattern for the text between "...".
func firstUnmatched(want []string, got string, quote func(string) string) string {
	rest := strings.Split(got, "\n")
	for _, line := range want {
		line = strings.Join(strings.Fields(line), " ")
		if line == "" || line == "..." {
			continue
		}
		pattern := regexp.MustCompile("^" + elided(line, quote) + "$")
		i := slices.IndexFunc(rest, func(s string) bool {
			return pattern.MatchString(strings.Join(strings.Fields(s), " "))
		})
		if i < 0 {
			return line
		}
		rest = rest[i+1:]
	}
	return ""
}

// elided is a pattern for a line in which "..." stands for anything, and as a word of its own
// also for no word.
func elided(line string, quote func(string) string) string {
	parts := strings.Split(line, "...")
	pattern := quote(parts[0])
	for _, next := range parts[1:] {
		before, blank := strings.CutSuffix(pattern, " ")
		if blank && (next == "" || next[0] == ' ') {
			pattern = before + "( .*)?" + quote(next)
		} else {
			pattern += ".*" + quote(next)
		}
	}
	return pattern
}

// TestConfigurations checks every configuration that is shown: whole ones, and parts that
// begin with spec.
func TestConfigurations(t *testing.T) {
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			text, shown := configuration(b)
			if !shown {
				continue
			}
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(root+"/examples")); err != nil { // what it may include
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "shown.yaml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			output, status, err := shell(t.Context(), dir, "selvage check shown.yaml")
			if err != nil || status != 0 {
				t.Errorf("%s: not a good configuration: %v\n%s", d.at(b.line), err, output)
			}
		}
	}
}

// TestLinks checks that relative links and their anchors resolve.
func TestLinks(t *testing.T) {
	all := documents(t)
	for _, d := range all {
		for i, line := range d.prose {
			for _, target := range links(line) {
				if err := resolves(all, d, target); err != nil {
					t.Errorf("%s: %v", d.at(i+1), err)
				}
			}
		}
	}
}

var elsewhere = regexp.MustCompile(`^(https?|mailto):`)

func resolves(all []document, d document, target string) error {
	if elsewhere.MatchString(target) {
		return nil
	}
	path, anchor, hasAnchor := strings.Cut(target, "#")
	file := d.path
	if path != "" {
		file = filepath.Join(filepath.Dir(d.path), path)
	}
	if _, err := os.Stat(filepath.Join(root, file)); err != nil {
		return fmt.Errorf("link %s: %w", target, err)
	}
	i := slices.IndexFunc(all, func(o document) bool { return o.path == file })
	if hasAnchor && i >= 0 && !anchors(all[i].prose)[anchor] {
		return fmt.Errorf("link %s: %s has no such heading", target, file)
	}
	return nil
}
