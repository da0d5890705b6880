package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	edgecli "github.com/selvage/selvage/internal/cli"
	"github.com/selvage/selvage/internal/program"
	"github.com/selvage/selvage/lab/measure"
)

func TestMain(m *testing.M) {
	measure.RunInstrument(os.Args[1:])
	if os.Args[0] == program.LabCommand { // started by selvage
		os.Exit(Main(os.Args, os.Stdout, os.Stderr))
	}
	testscript.Main(m, map[string]func(){
		program.Selvage: func() { os.Exit(edgecli.Main(os.Args[1:], os.Stdout, os.Stderr)) },
		program.Lab:     func() { os.Exit(Main(os.Args, os.Stdout, os.Stderr)) },
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": checkStatus}})
}

// checkStatus runs "status CODE PROGRAM ARG...", which asserts the exit status.
func checkStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status CODE COMMAND ARG...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	var exit interface{ ExitCode() int }
	if errors.As(err, &exit) {
		got = fmt.Sprint(exit.ExitCode())
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != args[0] {
		ts.Fatalf("exit status %s, want %s", got, args[0])
	}
}

// exitCode is how a command of the user ended.
type exitCode int

func (e exitCode) Error() string { return "" }
func (e exitCode) ExitCode() int { return int(e) }

func TestStatus(t *testing.T) {
	tool := exec.Command("sh", "-c", "exit 7").Run()
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("no"), 1},
		{fmt.Errorf("ip link: %w", tool), 1},
		{exitCode(7), 7},
	} {
		if got := status(c.err); got != c.want {
			t.Errorf("%v: exit status %d, want %d", c.err, got, c.want)
		}
	}
}

func TestPrintError(t *testing.T) {
	for _, c := range []struct {
		err        error
		name, want string
	}{
		{nil, program.Lab, ""},
		{errors.New("no"), program.Lab, "selvage-lab: no\n"},
		{errors.Join(errors.New("a"), errors.New("b")), program.LabCommand, "selvage: a\nselvage: b\n"},
		{fmt.Errorf("round 2: %w", context.Canceled), program.LabCommand, "selvage: interrupted\n"},
	} {
		var b bytes.Buffer
		printError(&b, c.name, c.err)
		if got := b.String(); got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}
