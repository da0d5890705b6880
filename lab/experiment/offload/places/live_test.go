package places

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/turns"
	"github.com/selvage/selvage/test/places"
	"github.com/selvage/selvage/test/tier"
)

const version = "of-the-test"

func TestMain(m *testing.M) {
	measure.RunInstrument(os.Args[1:])
	agent.Run(os.Args[1:], version, nil)
	tier.SideBySide(3)
	os.Exit(m.Run())
}

// command is one as the command line makes it.
func command(testbed *places.Testbed) *Command {
	return &Command{
		Host: []Host{{place.Place{Kind: place.SSH, Host: "a"}, places.Data}, {place.Place{Kind: place.SSH, Host: "b"}, places.Data}},
		Path: []turns.Path{{Name: "underlay", Addr: testbed.B.Underlay}}, Writes: []int{64}, Flows: 2,
		Flags: turns.Flags{Port: 5300, Slice: 300 * time.Millisecond, MaxTime: time.Minute, Connection: place.Connection{SSH: strings.Join(testbed.SSH, " ")}},
	}
}

// run is what a run prints, its log and its error.
func runOf(t *testing.T, c *Command, output string) (out, log bytes.Buffer, err error) {
	t.Helper()
	if err := c.Check(1); err != nil {
		t.Fatal(err)
	}
	err = c.Run(t.Context(), &experiment.Console{Out: &out, Err: &log, Version: version}, 1, experiment.Destination{Output: output, Results: t.TempDir()})
	return out, log, err
}

// featuresOf are all of both machines' data interfaces.
func featuresOf(t *testing.T, testbed *places.Testbed) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, m := range []*places.Machine{testbed.A, testbed.B} {
		features, err := m.Host.Features(places.Data)
		if err != nil {
			t.Fatal(err)
		}
		for name, on := range features {
			all[m.Host.Name+" "+name] = on
		}
	}
	return all
}

// States of veth's offloads are entered at both ends, also one that is off there, and all is as it was
// in the end. What veth has not is said.
func TestRun(t *testing.T) {
	tier.Slow(t)
	testbed := places.New(t)
	before := featuresOf(t, testbed)
	c := command(testbed)
	c.Path = append(c.Path, turns.Path{Name: "six", Addr: testbed.B.Underlay6})
	c.Only = []string{AllOff, "tso-off", "gro-on"}
	out, log, err := runOf(t, c, "json")
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, log.String(), places.Picture)
	}
	r, err := result.Read(&out)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"underlay", "six"} {
		for _, state := range []string{AsFound, AllOff, "tso-off", "gro-on"} {
			for _, metric := range []string{measure.TCPThroughput, client + turns.CPUPerGB, server + turns.CPUPerGB} {
				if got := values(r, path, state, 64, metric); len(got) != 1 || got[1] <= 0 {
					t.Errorf("%s %s %s: %v\n%s", path, state, metric, got, log.String())
				}
			}
		}
	}
	for _, want := range []string{"rx-ring, tx-ring, rx-usecs, adaptive-rx, udp4-hash, udp6-hash, pause at the client (d0): the driver has no such setting", " at the server (d0): "} {
		if !strings.Contains(r.Parameters[missingKey].String(), want) {
			t.Errorf("no %q in %q", want, r.Parameters[missingKey].String())
		}
	}
	if after := featuresOf(t, testbed); !maps.Equal(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
}

// While a state is in force, both ends have it, and only it: the next one begins as found.
func TestEnter(t *testing.T) {
	testbed := places.New(t)
	before := featuresOf(t, testbed)
	c := command(testbed)
	r := &run{Command: c, rounds: 1, now: state{name: AsFound}}
	console := &experiment.Console{Out: new(bytes.Buffer), Err: new(bytes.Buffer), Version: version}
	s, err := turns.Open(t.Context(), console, &c.Flags, turns.Role{Name: client, Place: c.Host[0].Place}, turns.Role{Name: server, Place: c.Host[1].Place})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := r.look(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{AllOff, "checksums-off", "tso-off", AsFound} {
		next := state{name: name}
		if at := slices.Index(r.names(), name); at >= 0 {
			next = r.states[at]
		}
		if err := r.enter(t.Context(), s, next); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		now := featuresOf(t, testbed)
		for _, end := range []string{"a ", "b "} {
			tso, csum, gso := now[end+"tx-tcp-segmentation"], now[end+"tx-checksum-ip-generic"], now[end+"tx-generic-segmentation"]
			want := [3]bool{name == AsFound, name == AsFound || name == "tso-off", name != AllOff}
			if got := [3]bool{tso, csum, gso}; got != want {
				t.Errorf("%s at %s: TSO, checksums, GSO %v, want %v", name, end, got, want)
			}
		}
	}
	if after := featuresOf(t, testbed); !maps.Equal(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
}

// A dry run says what would be changed, and changes nothing.
func TestDryRun(t *testing.T) {
	testbed := places.New(t)
	before := featuresOf(t, testbed)
	c := command(testbed)
	c.DryRun = true
	out, _, err := runOf(t, c, "table")
	for _, want := range []string{"ssh:b: state tso-off would set d0:tx-tcp-segmentation=off (is on)", "not available: rx-ring, "} {
		if err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v: no %q in\n%s", err, want, out.String())
		}
	}
	if after := featuresOf(t, testbed); !maps.Equal(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
}

// What cannot be measured is refused before anything is changed.
func TestRefused(t *testing.T) {
	testbed := places.New(t)
	for want, change := range map[string]func(*Command){
		"carries this SSH session":     func(c *Command) { c.Host[1].Interface = places.Management },
		"ssh:a has no interface eth77": func(c *Command) { c.Host[0].Interface = "eth77" },
		"have no state warp-on":        func(c *Command) { c.Only = []string{"warp-on"} },
	} {
		c := command(testbed)
		change(c)
		if _, log, err := runOf(t, c, "table"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\n%s", want, err, log.String())
		}
	}
}
