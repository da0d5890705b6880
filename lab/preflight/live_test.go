package preflight

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/doctor"
	"github.com/selvage/selvage/internal/doctor/compare"
	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/places"
)

const version = "of-the-test"

func TestMain(m *testing.M) {
	measure.RunInstrument(os.Args[1:])
	agent.Run(os.Args[1:], version, nil)
	os.Exit(m.Run())
}

// examined is selvage doctor --hosts ssh:a,ssh:b -o json, and its text.
func examined(t *testing.T, testbed *places.Testbed, f doctor.HostFlags) (r Report, text string, err error) {
	t.Helper()
	f.Hosts, f.Port, f.SSH, f.Sudo = []string{"ssh:a", "ssh:b"}, 5300, strings.Join(testbed.SSH, " "), "no"
	var out, log bytes.Buffer
	err = (&Command{HostFlags: f, Output: "json"}).Run(t.Context(), &Console{Out: &out, Err: &log, Version: version})
	if log.Len() > 0 {
		t.Errorf("it also says: %s", log.String())
	}
	if read := json.Unmarshal(out.Bytes(), &r); read != nil {
		t.Fatalf("%v, %v\n%s", err, read, places.Picture)
	}
	return r, r.text(), err
}

// between are the checks that found something between the hosts.
func between(r Report, check string) (found []compare.Finding) {
	for _, f := range r.Between.Findings {
		if f.Check == check && f.Severity != doctor.OK {
			found = append(found, f)
		}
	}
	return found
}

// Hosts that are alike first, then with planted differences, which are found, written down as drift and set back by
// the script. Nothing is left at them.
func TestRun(t *testing.T) {
	testbed := places.New(t)
	must := func(_ []byte, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	profile, scripts := filepath.Join(dir, "profile.json"), filepath.Join(dir, "scripts")
	r, text, err := examined(t, testbed, doctor.HostFlags{Save: profile})
	if err != nil || len(r.Between.Findings) != 6 || len(r.Between.Folded) > 0 || len(r.Paths) != 6 {
		t.Fatalf("of hosts that are alike: %v\n%s", err, text)
	}
	for _, f := range r.Between.Findings {
		if f.Severity != doctor.OK {
			t.Errorf("between hosts that are alike: %+v", f)
		}
	}

	b := testbed.B.Host
	must(b.Output(t.Context(), "ethtool", "-K", places.Data, "tx", "off"))
	must(b.Output(t.Context(), "ethtool", "-K", places.Management, "gso", "off"))
	must(nil, b.SetMTU(places.Data, 1400))
	must(b.Output(t.Context(), "sysctl", "-w", "net.ipv4.tcp_mtu_probing=1"))
	r, text, err = examined(t, testbed, doctor.HostFlags{Verify: profile, Script: scripts})
	var drift *DriftError
	if !errors.As(err, &drift) || drift.ExitCode() != 3 || drift.Error() != "differs from "+profile+": ssh:b" {
		t.Errorf("drift: %v", err)
	}
	for _, want := range []string{"CHANGED AT ssh:a\n  nothing", "MTU: 1500 in the profile, 1400 now", "AT ssh:a, ssh:b"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	checkPlanted(t, testbed, r)
	checkScript(t, testbed, filepath.Join(scripts, "ssh_b.sh"))
	for _, m := range []*places.Machine{testbed.A, testbed.B} {
		if left, err := filepath.Glob(m.Root("/tmp") + "/*"); err != nil || len(left) > 0 {
			t.Errorf("left at %s: %q, %v", m.Host.Name, left, err)
		}
	}
}

func checkPlanted(t *testing.T, testbed *places.Testbed, r Report) {
	t.Helper()
	for check, want := range map[string]string{
		"offloads": "tx-checksum-ip-generic: on / off", "sysctl": "net.ipv4.tcp_mtu_probing: 0 at ssh:a, 1 at ssh:b",
		"mtu": "packets of more than 1404 bytes from ssh:a do not arrive at ssh:b, but the MTU of d0 is 1500",
	} {
		found := false
		for _, f := range between(r, check) {
			found = found || strings.Contains(f.What, want)
		}
		if !found {
			t.Errorf("no %q in %+v", want, between(r, check))
		}
	}
	if first := r.Between.Findings[0]; first.Severity != doctor.Fault || first.Check != "mtu" {
		t.Errorf("the first is not the path that loses packets: %+v", first)
	}
	for _, p := range r.Paths {
		if p.From == "ssh:b" && p.Addr == testbed.A.Underlay && (p.Largest != 1400 || p.Error != "") {
			t.Errorf("the way back: %+v", p)
		}
	}
}

// checkScript runs a script: it sets the data link's offloads, which is undone, and never what carries the session.
func checkScript(t *testing.T, testbed *places.Testbed, script string) {
	t.Helper()
	data, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if !strings.Contains(text, "\trun ethtool -K d0 tx-checksum-ip-generic on\n") || !strings.Contains(text, "\trun ip link set dev d0 mtu 1500\n") ||
		!strings.Contains(text, "#   ethtool -K m0 tx-generic-segmentation on\n") || strings.Contains(text, "\trun ethtool -K m0") {
		t.Errorf("it is not as it should be:\n%s", text)
	}
	b := testbed.B.Host
	before := state(t, b)
	if _, err := b.Output(t.Context(), "sh", script, "apply"); err != nil {
		t.Errorf("apply: %v\n%s", err, text)
	}
	if got := state(t, b); !strings.Contains(got, "tx-checksum-ip-generic: on") || !strings.Contains(got, "tx-tcp-segmentation: on") || !strings.Contains(got, "mtu 1500") || !strings.Contains(got, "probing = 0") {
		t.Errorf("after apply:\n%s", got)
	}
	if _, err := b.Output(t.Context(), "sh", script, "revert"); err != nil {
		t.Errorf("revert: %v", err)
	}
	if got := state(t, b); got != before {
		t.Errorf("before:\n%s\nafter revert:\n%s", before, got)
	}
}

// state is what a script may change.
func state(t *testing.T, h *topo.Host) string {
	t.Helper()
	out, err := h.Output(t.Context(), "sh", "-c", "ethtool -k d0; ethtool -k m0; ip -o link show dev d0; sysctl net.ipv4.tcp_mtu_probing")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestWrongPlaces(t *testing.T) {
	for hosts, want := range map[string]string{"addr:192.0.2.1": "nothing can run at", "nonsense": "has no kind", "ssh:a,ssh:a": "named twice"} {
		err := (&Command{HostFlags: doctor.HostFlags{Hosts: strings.Split(hosts, ","), Port: 5300}}).Run(t.Context(), &Console{})
		var usage UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", hosts, err, want)
		}
	}
}
