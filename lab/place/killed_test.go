package place_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/test/places"
	"github.com/selvage/selvage/test/tier"
)

// state is what a run may have changed of a machine.
type state struct {
	Interfaces []string
	Features   map[string]bool
	Sysctls    map[string]string
	Files      []string
	Processes  []string
}

func stateOf(t *testing.T, testbed *places.Testbed) (all [2]state) {
	t.Helper()
	for i, m := range []*places.Machine{testbed.A, testbed.B} {
		var err error
		if all[i], err = lookAt(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// awaitState waits until both machines are as they were.
func awaitState(t *testing.T, testbed *places.Testbed, want [2]state) {
	t.Helper()
	err := await.Within(t.Context(), time.Minute, "the machines to be as they were", func() error {
		for i, m := range []*places.Machine{testbed.A, testbed.B} {
			now, err := lookAt(t.Context(), m)
			if err != nil {
				return err
			}
			if diff := cmp.Diff(want[i], now); diff != "" {
				return fmt.Errorf("machine %s, -before +after:\n%s", m.Host.Name, diff)
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("%v\n%s", err, places.Picture)
	}
}

// carrier is what a link that is cut at its far end shows.
var carrier = regexp.MustCompile(`NO-CARRIER,|,LOWER_UP|state \w+ `)

func lookAt(ctx context.Context, m *places.Machine) (s state, err error) {
	out, err := m.Host.Output(ctx, "ip", "-oneline", "link")
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(string(out)) {
		s.Interfaces = append(s.Interfaces, carrier.ReplaceAllString(strings.TrimSpace(line), ""))
	}
	if s.Features, err = m.Host.Features(places.Data); err != nil {
		return s, err
	}
	s.Sysctls = map[string]string{}
	for _, key := range []string{"net.ipv4.tcp_mtu_probing", "net.ipv4.tcp_rmem"} {
		if s.Sysctls[key], err = m.Host.SysctlGet(key); err != nil {
			return s, err
		}
	}
	for _, dir := range []string{m.Root("/tmp"), m.Root("/var/tmp"), m.Root("/root")} {
		files, err := filepath.Glob(filepath.Join(dir, "selvage-lab-*"))
		if err != nil {
			return s, err
		}
		s.Files = append(s.Files, files...)
	}
	for _, p := range places.ProcessesOf(m.Host) {
		s.Processes = append(s.Processes, p.Command)
	}
	slices.Sort(s.Processes)
	return s, nil
}

// feature says whether the one that toggles turns off is on.
func feature(t *testing.T, m *places.Machine) bool {
	t.Helper()
	features, err := m.Host.Features(places.Data)
	if err != nil {
		t.Fatal(err)
	}
	return features["tx-checksum-ip-generic"]
}

// listeners are the ports that a machine listens on, TCP and UDP.
func listeners(t *testing.T, m *places.Machine) (ports []int) {
	t.Helper()
	out, err := m.Host.Output(t.Context(), "ss", "-HlntuO")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		addr := strings.Fields(line)[4]
		port, err := strconv.Atoi(addr[strings.LastIndexByte(addr, ':')+1:])
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, port)
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// controllerEnv has a process of this program be a controller: it holds the ssh program and the
// server's address.
const controllerEnv = "SELVAGE_TEST_CONTROLLER"

// control opens both sessions, changes things and runs instruments until it is killed or fails.
func control() int {
	words := strings.Fields(os.Getenv(controllerEnv))
	addr, ssh := words[0], words[1:]
	if err := controlUntil(context.Background(), addr, place.Options{Version: version, SSH: ssh, Connect: 20 * time.Second, Copy: 20 * time.Second}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 1
}

func controlUntil(ctx context.Context, addr string, o place.Options) (err error) {
	var sessions []*agent.Session
	defer func() {
		for _, s := range sessions {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, p := range []place.Place{atA, atB} {
		s, err := place.Open(ctx, p, o)
		if err != nil {
			return err
		}
		sessions = append(sessions, s)
		if _, err := s.Set(ctx, toggles(), false); err != nil {
			return err
		}
	}
	role := measure.Role{Instrument: measure.RoleBulk, Port: 5300, Duration: 200 * time.Millisecond}
	if err := role.Addr.UnmarshalText([]byte(addr)); err != nil {
		return err
	}
	for {
		server, err := sessions[1].Serve(ctx, role)
		if err != nil {
			return err
		}
		if _, err := sessions[0].Run(ctx, role); err != nil {
			return err
		}
		if _, err := server.Collect(ctx); err != nil {
			return err
		}
	}
}

// faults are what may happen to a run. Those that leave something say so.
var faults = []struct {
	name   string
	leaves bool
	happen func(t *testing.T, testbed *places.Testbed, controller *exec.Cmd) (mend func())
}{
	{"ssh killed", false, func(t *testing.T, testbed *places.Testbed, _ *exec.Cmd) func() {
		places.Kill(t, testbed.Client, func(command string) bool {
			return strings.HasPrefix(command, "ssh ") && strings.Contains(command, " -- a ")
		})
		return nil
	}},
	{"agent killed", false, func(t *testing.T, testbed *places.Testbed, _ *exec.Cmd) func() {
		places.Kill(t, testbed.A.Host, places.IsAgent)
		return nil
	}},
	{"agent and its shell killed", true, func(t *testing.T, testbed *places.Testbed, _ *exec.Cmd) func() {
		places.Kill(t, testbed.A.Host, func(command string) bool { return places.IsGuard(command) || places.IsAgent(command) })
		return nil
	}},
	{"controller killed", false, func(t *testing.T, _ *places.Testbed, controller *exec.Cmd) func() {
		if err := controller.Process.Kill(); err != nil {
			t.Error(err)
		}
		return nil
	}},
	{"link cut", false, func(t *testing.T, testbed *places.Testbed, _ *exec.Cmd) func() {
		link := testbed.ManagementOf("a")
		if err := testbed.Client.Down(link); err != nil {
			t.Error(err)
		}
		return func() {
			if err := testbed.Client.Up(link); err != nil {
				t.Error(err)
			}
			if err := testbed.Client.AwaitUp(t.Context(), link); err != nil {
				t.Error(err)
			}
		}
	}},
}

func restore(t *testing.T, testbed *places.Testbed) {
	t.Helper()
	if _, err := place.Restore(t.Context(), atA, options(testbed)); err != nil {
		t.Error(err)
	}
}

// Whatever is killed or cut, and whenever, the machines are in the end as they were: by
// themselves, or where agent and shell were both killed by Restore.
func TestKilled(t *testing.T) {
	tier.Slow(t)
	times := 10
	if tier.IsLong() {
		times = 50
	}
	testbed := places.New(t)
	before := stateOf(t, testbed)
	for i := range times {
		fault := faults[i%len(faults)]
		random := rand.New(rand.NewPCG(18, uint64(i)))
		after := time.Duration(random.Int64N(int64(2500 * time.Millisecond)))
		t.Run(fmt.Sprintf("%d %s after %s", i, fault.name, after.Round(time.Millisecond)), func(t *testing.T) {
			controller := startController(t, testbed)
			if i%2 == 1 { // while it measures; else it may still be connecting
				awaitChange(t, testbed)
			}
			select {
			case <-t.Context().Done():
			case <-time.After(after):
			}
			mend := fault.happen(t, testbed, controller)
			if mend != nil { // the machines find out for themselves
				awaitState(t, testbed, before)
				mend()
			}
			awaitEnd(t, controller)
			if fault.leaves {
				restore(t, testbed)
				if s, err := lookAt(t.Context(), testbed.A); err == nil && len(s.Files) > 0 {
					// Its shell was killed before it had said that it was there, so it might have been about to.
					<-time.After(6 * time.Second)
					restore(t, testbed)
				}
			}
			awaitState(t, testbed, before)
		})
	}
}

// awaitChange waits until the controller has changed what it changes.
func awaitChange(t *testing.T, testbed *places.Testbed) {
	t.Helper()
	err := await.Within(t.Context(), time.Minute, "a change", func() error {
		features, err := testbed.A.Host.Features(places.Data)
		if err == nil && features["tx-checksum-ip-generic"] {
			err = errors.New("nothing has changed")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func startController(t *testing.T, testbed *places.Testbed) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self)
	c.Env = append(os.Environ(), controllerEnv+"="+testbed.B.Underlay.String()+" "+strings.Join(testbed.SSH, " "))
	var out bytes.Buffer
	c.Stderr = &out
	c.WaitDelay = time.Second
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()         // in whatever way
		t.Log(strings.TrimSpace(out.String()))
	})
	return c
}

// awaitEnd waits until the controller has found out.
func awaitEnd(t *testing.T, c *exec.Cmd) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Wait() // in whatever way
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the controller goes on")
		_ = c.Process.Kill() // it may have ended just now
	}
}
