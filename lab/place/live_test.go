package place_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/test/places"
	"github.com/selvage/selvage/test/tier"
)

const version = "of-the-test"

func TestMain(m *testing.M) {
	measure.RunInstrument(os.Args[1:])
	agent.Run(os.Args[1:], version, nil)
	if os.Getenv(controllerEnv) != "" {
		os.Exit(control())
	}
	tier.SideBySide(3)
	os.Exit(m.Run())
}

func options(testbed *places.Testbed) place.Options {
	return place.Options{Version: version, SSH: testbed.SSH}
}

func open(t *testing.T, p place.Place, o place.Options) *agent.Session {
	t.Helper()
	s, err := place.Open(t.Context(), p, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var atA, atB = place.Place{Kind: place.SSH, Host: "a"}, place.Place{Kind: place.SSH, Host: "b"}

// toggles are of the data link, and of the machine's network.
func toggles() []agent.Change {
	return []agent.Change{{Interface: places.Data, Feature: "tx-checksum-ip-generic"}, {Sysctl: "net.ipv4.tcp_mtu_probing", Value: "2"}}
}

// All that an agent is asked for, over SSH, and all of it gone in the end.
func TestSession(t *testing.T) {
	testbed := places.New(t)
	before := stateOf(t, testbed)
	client, server := open(t, atA, options(testbed)), open(t, atB, options(testbed))
	if h := client.Hello; !h.Root || h.Cores < 1 || !slices.Equal(h.Carriers, []string{places.Management}) || len(h.Interfaces) < 4 {
		t.Errorf("hello: %+v", h)
	}
	for name, check := range map[string]func(*testing.T){
		"instruments": func(t *testing.T) { checkInstruments(t, testbed, client, server) },
		"changes":     func(t *testing.T) { checkChanges(t, testbed, client) },
		"limits":      func(t *testing.T) { checkLimits(t, testbed, client) },
		"clock":       func(t *testing.T) { checkClock(t, client, server) },
	} {
		t.Run(name, check)
	}
	for _, s := range []*agent.Session{client, server} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	awaitState(t, testbed, before)
}

func checkInstruments(t *testing.T, testbed *places.Testbed, client, server *agent.Session) {
	for _, role := range []measure.Role{
		{Instrument: measure.RoleBulk, Streams: 2}, {Instrument: measure.RoleBulk, Reverse: true}, {Instrument: measure.RoleRR, Size: 1},
		{Instrument: measure.RoleCRR}, {Instrument: measure.RoleUDP, Size: 18},
	} {
		role.Addr, role.Port, role.Duration = testbed.B.Underlay, 5300, 300*time.Millisecond
		if role.Reverse {
			role.Addr = testbed.B.Underlay6
		}
		s, err := server.Serve(t.Context(), role)
		if err != nil {
			t.Fatalf("%s: %v", role.Instrument, err)
		}
		watched := make(chan agent.Watched)
		go func() {
			defer close(watched)
			w, err := server.Watch(t.Context(), 2*time.Second)
			if err != nil {
				t.Error(err)
			}
			watched <- w
		}()
		if sockets := listeners(t, testbed.B); !slices.Equal(sockets, []int{22, 4789, 5300}) {
			t.Errorf("%s: ports %d listen, not sshd, the overlay and the instrument", role.Instrument, sockets)
		}
		report, err := client.Run(t.Context(), role)
		if err != nil || len(report) == 0 {
			t.Errorf("%s: %s, %v", role.Instrument, report, err)
		}
		if w := <-watched; w.CPU.Busy <= 0 || w.Interfaces[places.Data].RxPackets == 0 {
			t.Errorf("%s: %+v", role.Instrument, w)
		}
		if role.Instrument == measure.RoleBulk || role.Instrument == measure.RoleUDP {
			_, err = s.Collect(t.Context())
		} else {
			err = s.End(t.Context())
		}
		if err != nil {
			t.Errorf("%s: %v", role.Instrument, err)
		}
	}
}

// Changes are listed, made, and never those of the interface that carries SSH.
func checkChanges(t *testing.T, testbed *places.Testbed, s *agent.Session) {
	lines, err := s.Set(t.Context(), toggles(), true)
	if err != nil || len(lines) != 2 || !strings.Contains(lines[0], "(is on)") {
		t.Errorf("dry run: %q, %v", lines, err)
	}
	if on := feature(t, testbed.A); !on {
		t.Error("a dry run changed something")
	}
	if _, err := s.Set(t.Context(), toggles(), false); err != nil {
		t.Error(err)
	}
	if on := feature(t, testbed.A); on {
		t.Error("nothing was changed")
	}
	for _, c := range []agent.Change{
		{Interface: places.Management, Feature: "tx-checksum-ip-generic"},
		{Sysctl: "net.ipv4.conf." + places.Management + ".forwarding", Value: "1"},
		{Sysctl: "net.ipv6.conf.all.disable_ipv6", Value: "1"},
	} {
		if _, err := s.Set(t.Context(), []agent.Change{c}, true); err == nil || !strings.Contains(err.Error(), "carries this SSH session") {
			t.Errorf("%s: %v", c, err)
		}
	}
	if _, err := s.Set(t.Context(), []agent.Change{{Interface: places.Data, Feature: "nonsense"}}, false); err == nil {
		t.Error("a feature that is none was set")
	}
}

// What is longer than the limit is refused, and no more than the rate is sent.
func checkLimits(t *testing.T, testbed *places.Testbed, s *agent.Session) {
	role := measure.Role{Instrument: measure.RoleRR, Addr: testbed.B.Underlay, Port: 5300, Duration: time.Hour}
	if _, err := s.Run(t.Context(), role); err == nil || !strings.Contains(err.Error(), "--max-time") {
		t.Errorf("an hour: %v", err)
	}
	o := options(testbed)
	o.Limits.Rate = 20e6
	slow, sink := open(t, atA, o), open(t, atB, o)
	for _, instrument := range []string{measure.RoleBulk, measure.RoleUDP} {
		role := measure.Role{Instrument: instrument, Addr: testbed.B.Underlay, Port: 5300, Duration: time.Second, Size: 18}
		server, err := sink.Serve(t.Context(), role)
		if err != nil {
			t.Fatal(err)
		}
		source, err := slow.Run(t.Context(), role)
		if err != nil {
			t.Fatal(err)
		}
		received, err := server.Collect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if instrument == measure.RoleBulk {
			b, err := measure.ReadBulk(role, source, received)
			if err != nil || b.Steady(200*time.Millisecond) > 0.022 || b.Steady(0) < 0.005 {
				t.Errorf("bulk at 20 Mbit/s: %+v, %v", b, err)
			}
			continue
		}
		u, err := measure.ReadUDP(role, source, received)
		if err != nil || float64(u.Sent)*8*(18+62)/u.Elapsed.Seconds() > 21e6 || u.Received == 0 {
			t.Errorf("UDP at 20 Mbit/s: %+v, %v", u, err)
		}
	}
}

// Both machines have one clock here.
func checkClock(t *testing.T, client, server *agent.Session) {
	a, err := client.Clock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := server.Clock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d := b.Against(a)
	if d.Error <= 0 || d.Offset.Abs() > d.Error {
		t.Errorf("one clock differs by %s", d)
	}
	if _, err := d.OneWay(time.Microsecond); err == nil {
		t.Errorf("a microsecond one way, by clocks that differ by %s", d)
	}
}

// An agent of another version is refused, and removed.
func TestVersionMismatch(t *testing.T) {
	testbed := places.New(t)
	before := stateOf(t, testbed)
	o := options(testbed)
	o.Version = "another"
	if _, err := place.Open(t.Context(), atA, o); err == nil || !strings.Contains(err.Error(), version) || !strings.Contains(err.Error(), "another") {
		t.Errorf("another version: %v", err)
	}
	o = options(testbed)
	o.Programs = t.TempDir()
	old := "#!/bin/sh\necho 'unexpected argument agent' >&2; exit 80\n"
	for _, arch := range []string{"amd64", "arm64"} {
		if err := os.WriteFile(filepath.Join(o.Programs, "selvage-lab-linux-"+arch), []byte(old), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := place.Open(t.Context(), atA, o); err == nil || !strings.Contains(err.Error(), "unexpected argument") {
		t.Errorf("a program that knows no agent: %v", err)
	}
	awaitState(t, testbed, before)
}

// What cannot be opened says why.
func TestOpenFails(t *testing.T) {
	testbed := places.New(t)
	for text, want := range map[string]string{
		"addr:192.0.2.1":     "only pass through",
		"ns:no-such-ns":      "no such file",
		"pid:4194304":        "no such file",
		"ssh:no-such-user@a": "ermission denied",
		"ssh:no-such-host.":  "ould not resolve",
		"ssh:a:1":            "refused",
	} {
		p, err := place.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := place.Open(t.Context(), p, options(testbed)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), p.String()) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// What a login shell prints is neither in the way nor lost: a title or a greeting without an end of line before the script's own lines, and
// what came instead of these.
func TestLoginShells(t *testing.T) {
	testbed := places.New(t)
	before := stateOf(t, testbed)
	profile := testbed.A.Root("/tmp/.bashrc") // which bash reads for a command of sshd
	for text, want := range map[string]string{
		`printf "\033]0;host\007"`:                              "",
		`printf "\033]0;%s\007> " "$BASH_EXECUTION_STRING"`:     "",
		`printf "Choose [1-3]: "; read -r _; exit 1`:            `did not run the script in 2s; it printed "Choose [1-3]:"`,
		`printf "\033[2JThis account is closed.\n"; exit 1`:     `exit status 1; it printed "\x1b[2JThis account is closed."`,
		`tr "\000" A </dev/zero`:                                `prints more than 65536 bytes before it does anything; it printed "AAA`,
		`echo to standard error; echo "a warning" >&2; echo hi`: "",
	} {
		if err := os.WriteFile(profile, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		o := options(testbed)
		if strings.Contains(text, "read") {
			o.Connect = 2 * time.Second
		}
		s, err := place.Open(t.Context(), atA, o)
		if err == nil {
			err = s.Close()
		}
		if err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want) || len(err.Error()) > 4000) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if err := os.Remove(profile); err != nil {
		t.Error(err)
	}
	awaitState(t, testbed, before)
}

// The program goes where there is room for it; where there is none, the message says what to do.
func TestRoom(t *testing.T) {
	testbed := places.New(t)
	shrink := func(dir string) {
		t.Helper()
		c := exec.Command("nsenter", "--mount", "--target", fmt.Sprint(testbed.A.SSHD()), "mount", "-o", "remount,size=1m", dir)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	shrink("/tmp")
	s := open(t, atA, options(testbed))
	if err := s.Close(); filepath.Dir(s.Hello.Dir) != "/var/tmp" || err != nil {
		t.Errorf("it ran in %s, %v", s.Hello.Dir, err)
	}
	shrink("/var/tmp")
	if _, err := place.Open(t.Context(), atA, options(testbed)); err == nil || !strings.Contains(err.Error(), "with room for") || !strings.Contains(err.Error(), "set TMPDIR") {
		t.Errorf("without room: %v", err)
	}
}

// Namespaces of this machine, by name and by a process in them.
func TestLocalPlaces(t *testing.T) {
	testbed := places.New(t)
	before := stateOf(t, testbed)
	client := open(t, place.Place{Kind: place.Namespace, Name: testbed.A.Host.Namespace}, options(testbed))
	server := open(t, place.Place{Kind: place.Process, PID: testbed.B.SSHD()}, options(testbed))
	checkInstruments(t, testbed, client, server)
	if _, err := client.Set(t.Context(), toggles(), false); err != nil {
		t.Error(err)
	}
	for _, s := range []*agent.Session{client, server} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(s.Hello.Dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", s.Hello.Dir, err)
		}
	}
	awaitState(t, testbed, before)
}

// A context that ends while a session opens leaves nothing.
func TestOpenInterrupted(t *testing.T) {
	testbed := places.New(t)
	before := stateOf(t, testbed)
	for i := range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Millisecond)
		if s, err := place.Open(ctx, atA, options(testbed)); err == nil {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		cancel()
	}
	awaitState(t, testbed, before)
}

// Where the user is not root, Debian's sudo has the password on standard input, or none if it wants none. A wrong one is an error.
// It stands on no command line.
func TestSudo(t *testing.T) {
	testbed := places.New(t)
	const secret = "only of this test"
	for m, sudoers := range map[*places.Machine]string{testbed.A: "op ALL=(ALL) ALL", testbed.B: "op ALL=(ALL) NOPASSWD: ALL"} {
		if err := testbed.AddUser(t.Context(), m, places.User{Name: "op", Password: secret, Sudoers: sudoers}); err != nil {
			t.Fatal(err)
		}
	}
	asks, asksNot := place.Place{Kind: place.SSH, User: "op", Host: "a"}, place.Place{Kind: place.SSH, User: "op", Host: "b"}
	for _, c := range []struct {
		name           string
		at             place.Place
		how            place.Sudo
		password, want string
	}{
		{"password", asks, place.SudoPassword, secret, ""},
		{"wrong password", asks, place.SudoPassword, "a guess", "3 incorrect password attempts"},
		{"password for nothing", asksNot, place.SudoPassword, secret, ""},
		{"no password", asksNot, place.SudoNoPrompt, "", ""},
		{"no password, but asked for", asks, place.SudoNoPrompt, "", "a password is required"},
		{"no sudo", asks, place.NoSudo, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options(testbed)
			o.Sudo, o.Password = c.how, func(string) (string, error) { return c.password, nil }
			s, err := place.Open(t.Context(), c.at, o)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if s.Hello.Root != (c.how != place.NoSudo) {
				t.Errorf("root: %t", s.Hello.Root)
			}
			for _, m := range []*places.Machine{testbed.A, testbed.B} {
				for _, p := range places.ProcessesOf(m.Host) {
					if strings.Contains(p.Command, secret) {
						t.Errorf("the password is on the command line %s", p.Command)
					}
				}
			}
			if _, err := s.Clock(t.Context()); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Without root all instruments run, and changes are refused.
func TestUnprivileged(t *testing.T) {
	testbed := places.New(t)
	before := stateOf(t, testbed)
	// In place of ssh, a program that runs its last argument as another user.
	o := options(testbed)
	var sessions []*agent.Session
	for _, m := range []*places.Machine{testbed.A, testbed.B} {
		asUser := filepath.Join(testbed.Dir, "as-user-"+m.Host.Name)
		script := fmt.Sprintf("#!/bin/sh\nfor last; do :; done\ncd /\nexport HOME=/nonexistent\n"+
			"exec ip netns exec %s setpriv --reuid=65534 --regid=65534 --clear-groups sh -c \"$last\"\n", m.Host.Namespace)
		if err := os.WriteFile(asUser, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		o.SSH = []string{asUser}
		sessions = append(sessions, open(t, atA, o))
	}
	client, server := sessions[0], sessions[1]
	if client.Hello.Root {
		t.Error("it is root")
	}
	checkInstruments(t, testbed, client, server)
	if _, err := client.Set(t.Context(), toggles(), false); err == nil || !strings.Contains(err.Error(), "--sudo") {
		t.Errorf("changes: %v", err)
	}
	for _, s := range sessions {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(s.Hello.Dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", s.Hello.Dir, err)
		}
	}
	awaitState(t, testbed, before)
}
