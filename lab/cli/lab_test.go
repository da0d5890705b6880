package cli

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/program"
	"github.com/selvage/selvage/test/places"
)

// lab runs a command line and returns what it printed.
func lab(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	var out, log bytes.Buffer
	err = run(func() context.Context { return ctx }, program.LabCommand, args, &streams{out: &out, err: &log})
	return out.String(), log.String(), err
}

// A run whose output loses its reader goes on to its end, or to the Ctrl-C that took the reader too. It leaves its files and
// restores the places.
func TestOutputWithoutReader(t *testing.T) {
	testbed := places.New(t)
	for rounds, interrupt := range map[string]bool{"1": false, "1000": true} {
		results := t.TempDir()
		cmd := exec.Command(program.Lab, "ab", "--ssh="+strings.Join(testbed.SSH, " "), "--results="+results, "--client=ssh:a", "--server=ssh:b", "--path=underlay="+testbed.B.Underlay.String(),
			"--cases=rr", "--slice=300ms", "--rounds="+rounds, "--set=both:"+places.Data+":tx-checksum-ip-generic=off")
		output, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdout = cmd.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if !interrupt || strings.Contains(lines.Text(), "1/1000") {
				break
			}
		}
		output.Close()
		if interrupt {
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
		}
		err = cmd.Wait()
		files, _ := filepath.Glob(results + "/*/*")
		if cmd.ProcessState.ExitCode() != exitFailure || len(files) != 2 {
			t.Errorf("%s rounds: %v, files %q", rounds, err, files)
		}
		if features, err := testbed.A.Host.Features(places.Data); err != nil || !features["tx-checksum-ip-generic"] {
			t.Errorf("%s rounds: not restored: %v", rounds, err)
		}
	}
}

// A command that only reads leaves signals alone, so that they end it. One that must not be cut short catches them.
func TestWhoCatchesSignals(t *testing.T) {
	for command, want := range map[string]int{"report none": 0, "compare none none": 0, "csv none": 0, "openmetrics none": 0, "index none": 0, "redact none -o none": 0, "restore --hosts=ns:none": 1, "ab --client=ns:none --server=ns:none --path=a=192.0.2.1": 1} {
		caught := 0
		_ = run(func() context.Context { caught++; return t.Context() }, program.Lab, strings.Fields(command), &streams{out: io.Discard, err: io.Discard})
		if caught != want {
			t.Errorf("%s: catches signals %d times, want %d", command, caught, want)
		}
	}
}

// A run between places, and what an agent leaves that was killed with its shell.
func TestLabAtPlaces(t *testing.T) {
	testbed := places.New(t)
	ssh := "--ssh=" + strings.Join(testbed.SSH, " ")
	measure := []string{
		"ab", ssh, "--results=" + t.TempDir(), "--client=ssh:a", "--server=ssh:b", "--path=underlay=" + testbed.B.Underlay.String(), "--path=overlay=" + testbed.B.Overlay.String(),
		"--cases=rr", "--slice=300ms", "--set=both:" + places.Data + ":tx-checksum-ip-generic=off",
	}
	out, log, err := lab(t.Context(), append(measure, "--rounds=1")...)
	if err != nil || !strings.Contains(out, "Request/response p50") {
		t.Fatalf("%v\n%s%s\n%s", err, log, out, places.Picture)
	}
	restore := []string{"restore", ssh, "--hosts=ssh:a,ssh:b"}
	if out, log, err := lab(t.Context(), restore...); err != nil || strings.Count(out, "nothing was left behind") != 2 {
		t.Errorf("%v\n%s%s", err, log, out)
	}

	ended := make(chan error, 1)
	go func() {
		_, _, err := lab(t.Context(), append(measure, "--rounds=1000")...)
		ended <- err
	}()
	isOn := func() bool {
		features, err := testbed.A.Host.Features(places.Data)
		return err != nil || features["tx-checksum-ip-generic"]
	}
	err = await.Within(t.Context(), time.Minute, "a change", func() error {
		if isOn() {
			return context.DeadlineExceeded
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	places.Kill(t, testbed.A.Host, func(command string) bool { return places.IsGuard(command) || places.IsAgent(command) })
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "ssh:a: connection lost") {
		t.Errorf("the run ended with: %v", err)
	}
	if isOn() {
		t.Error("what a killed agent changed is not there any more")
	}
	out, log, err = lab(t.Context(), restore...)
	if err != nil || !strings.Contains(out, "ssh:a: undid and removed /tmp/selvage-lab-") || !strings.Contains(out, "ssh:b: nothing was left behind") {
		t.Errorf("%v\n%s%s", err, log, out)
	}
	if !isOn() {
		t.Error("what a killed agent changed was not undone")
	}
}
