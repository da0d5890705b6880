package docs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/test/tier"
)

// TestLab runs the blocks marked lab of each document in a selvage lab shell.
func TestLab(t *testing.T) {
	for _, d := range documents(t) {
		var commands []shown
		for _, b := range d.blocks {
			if b.inLab() {
				commands = append(commands, b.commands()...)
			}
		}
		if len(commands) > 0 {
			t.Run(d.path, func(t *testing.T) {
				t.Parallel()
				runInLab(t, d, commands)
			})
		}
	}
}

func runInLab(t *testing.T, d document, commands []shown) {
	tier.Root(t)
	lab := startLab(t)
	for _, c := range commands {
		var output string
		try := func() (err error) {
			output, err = lab.run(c)
			return err
		}
		err := try()
		if err != nil && strings.HasPrefix(c.text, "selvage ") && len(c.output) > 0 {
			err = await.Within(t.Context(), 20*time.Second, c.text, try)
		}
		if err != nil {
			t.Fatalf("%s: %s: %v; it prints:\n%s", d.at(c.line), c.text, err, output)
		}
	}
	if err := lab.exit(); err != nil {
		t.Errorf("selvage lab shell: %v", err)
	}
}

// labShell is a selvage lab shell that reads its script line by line.
type labShell struct {
	cmd    *exec.Cmd
	script io.WriteCloser
	lines  *bufio.Scanner
}

func startLab(t *testing.T) *labShell {
	t.Helper()
	selvage, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	cmd := exec.CommandContext(ctx, selvage, "lab", "shell")
	cmd.Env = append(os.Environ(), "SHELL=/bin/bash")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // which removes the lab
	cmd.WaitDelay = 30 * time.Second
	script, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
	})
	return &labShell{cmd: cmd, script: script, lines: bufio.NewScanner(output)}
}

// finished ends the output of a command, before its exit status.
const finished = "=== finished with "

// run runs a command and compares what it prints with what is shown.
func (l *labShell) run(c shown) (output string, err error) {
	if _, err := fmt.Fprintf(l.script, "{ %s\n} </dev/null\necho; echo %q$?\n", c.text, finished); err != nil {
		return "", err
	}
	for l.lines.Scan() {
		status, ended := strings.CutPrefix(l.lines.Text(), finished)
		if !ended {
			output += l.lines.Text() + "\n"
			continue
		}
		if missing := firstUnmatched(c.output, output, anyFigures); missing != "" {
			return output, fmt.Errorf("does not print, there, %q", missing)
		}
		if strings.TrimSpace(strings.Join(c.output, "")) == "" && status != "0" {
			return output, fmt.Errorf("exit status %s", status)
		}
		return output, nil
	}
	return output, errors.Join(errors.New("the shell has ended"), l.lines.Err())
}

func (l *labShell) exit() error {
	if _, err := io.WriteString(l.script, "exit 0\n"); err != nil {
		return err
	}
	for l.lines.Scan() { // Wait closes the pipe
	}
	return l.cmd.Wait()
}

var (
	wordOrNumber = regexp.MustCompile(`[\w.:µ]+`)
	// figure is a number with a point, or with a unit, or a time of day. An address has more
	// points, and colons without a point behind them.
	figure = regexp.MustCompile(`^(\d+\.\d+|\d+(\.\d+)?(ns|µs|ms|s|m|h|B|kB|MB|GB|k|M|G)|\d+:\d\d:\d\d\.\d+)$`)
)

// anyFigures is a pattern for a text with other figures.
func anyFigures(text string) string {
	var pattern strings.Builder
	at := 0
	for _, w := range wordOrNumber.FindAllStringIndex(text, -1) {
		if figure.MatchString(text[w[0]:w[1]]) {
			pattern.WriteString(regexp.QuoteMeta(text[at:w[0]]) + `([\d.:]+[a-zA-Zµ]*)+`)
			at = w[1]
		}
	}
	return pattern.String() + regexp.QuoteMeta(text[at:])
}

func TestAnyFigures(t *testing.T) {
	const ping = "64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=0.187 ms"
	for _, c := range []struct {
		shown, printed string
		same           bool
	}{
		{ping, "64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=12.4 ms", true},
		{ping, "64 bytes from 10.0.0.3: icmp_seq=1 ttl=64 time=0.187 ms", false},
		{ping, "64 bytes from 10.0.0.2: icmp_seq=1 ttl=63 time=0.187 ms", false},
		{"0% packet loss, time 1012ms", "0% packet loss, time 9ms", true},
		{"0% packet loss, time 1012ms", "100% packet loss, time 1012ms", false},
		{"02:00:00:00:00:01 learned 2.1s ...", "02:00:00:00:00:01  learned  1m12s  0", true},
		{"02:00:00:00:00:01 learned 2.1s", "02:00:00:00:00:02  learned  2.1s", false},
		{"11:32:23.045137 IP ... vni 100", "07:01:59.1 IP x, vni 100", true},
		{"192.0.2.2 ... resolved ...", "192.0.2.2  resolved", true},
		{"192.0.2.2 ... resolved ...", "192.0.2.2  u0  resolved  1500", true},
		{"192.0.2.2 ... resolved ...", "192.0.2.20  resolved  1500", false},
		{"... vni 100", "vni 101", false},
		{"hits of 83.4k look-ups", "hits of 12 look-ups", true},
	} {
		if missing := firstUnmatched([]string{c.shown}, c.printed, anyFigures); (missing == "") != c.same {
			t.Errorf("%q and %q: the same is %t, want %t", c.shown, c.printed, !c.same, c.same)
		}
	}
}
