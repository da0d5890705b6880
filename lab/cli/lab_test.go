package cli

import (
	"bytes"
	"context"
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
	err = run(ctx, program.LabCommand, args, &streams{out: &out, err: &log})
	return out.String(), log.String(), err
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
