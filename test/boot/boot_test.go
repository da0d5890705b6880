package boot

import (
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/selvage/selvage/test/debian"
	"github.com/selvage/selvage/test/tier"
)

// recipe is the machine that packages are installed on.
var recipe = debian.Recipe{Suite: "trixie", Packages: []string{"iputils-ping", "iperf3", "frr", "nftables", "ethtool"}}

// machine is one with a network and both packages at hand, of which none is installed.
func machine(t *testing.T, boot func(testing.TB, debian.Options) *debian.Machine, files map[string]string) *debian.Machine {
	t.Helper()
	debs := packages(t)
	all := map[string]string{
		"/root/older.deb": debs[older], "/root/newer.deb": debs[newer],
		"/usr/local/sbin/topology": "testdata/topology", "/etc/systemd/system/topology.service": "testdata/topology.service",
	}
	maps.Copy(all, files)
	m := boot(t, debian.Options{Recipe: recipe, Files: all})
	m.Must("chmod 755 /usr/local/sbin/topology && systemctl enable --now topology")
	return m
}

func edgeFile(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/a.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What an operator does with a host, in the order of its life, in a container.
func TestLifeOfAHost(t *testing.T) {
	tier.Long(t, "test/e2e/ops TestRestarts and TestApply, without systemd")
	m := machine(t, debian.Container, nil)
	before := hostState(m)
	inOrder(t, m, []step{
		{"Install", install}, {"Reboot", reboot}, {"Reload", reload}, {"Restart", restart}, {"Stop", stop}, {"Kill", kill}, {"Watchdog", watchdog}, {"Sandbox", sandbox},
		{"Upgrade", upgrade}, {"RollBack", rollBack},
		{"Remove", func(t *testing.T, m *debian.Machine) { remove(t, m, before) }},
		{"Purge", func(t *testing.T, m *debian.Machine) { purge(t, m, before) }},
	})
}

type step struct {
	name string
	do   func(*testing.T, *debian.Machine)
}

func inOrder(t *testing.T, m *debian.Machine, steps []step) {
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) { step.do(t, m.In(t)) }) {
			t.FailNow() // what follows rests on it
		}
	}
}

func install(t *testing.T, m *debian.Machine) {
	m.Must("apt-get install -y --no-install-recommends /root/older.deb")
	if out := m.Must("systemctl list-units --plain --no-legend 'selvage@*' && ls /sys/fs/bpf"); strings.Contains(out, "selvage") {
		t.Errorf("the package started something by itself:\n%s", out)
	}
	m.Must("systemd-analyze verify selvage@a.service")
	m.Put("/etc/selvage/a.yaml", edgeFile(t))
	m.Must("selvage check /etc/selvage/a.yaml && systemctl enable --now selvage@a")
	crosses(m)
	ready(m)
	if exposure := m.Must("systemd-analyze security --no-pager selvage@a | tail -n 1"); !strings.Contains(exposure, "OK") {
		t.Errorf("systemd says: %s", exposure)
	} else {
		t.Log(exposure)
	}
}

// ready is the fact that the unit is active, with a line that says so.
func ready(m *debian.Machine) {
	m.Fact("the edge is active, and nothing is wrong with it",
		"systemctl is-active -q selvage@a && systemctl show -P StatusText selvage@a | grep '^OK: 1 segments, 1 ports'")
}

func reboot(t *testing.T, m *debian.Machine) {
	m.Reboot()
	m.Fact("the edge is active after the boot", "systemctl is-active -q selvage@a")
	crosses(m)
	ready(m)
	s := begin(t, m)
	s.lostNothing(t)
}

// A reload answers; one that is refused fails, says where, and leaves everything as it was.
func reload(t *testing.T, m *debian.Machine) {
	good := edgeFile(t)
	m.Put("/etc/selvage/a.yaml", strings.Replace(good, "segment: blue}]", "segment: blue}]\n  fdb: {ageing: 200s}", 1))
	m.Must("systemctl reload selvage@a")
	m.Fact("the journal has the answer", "journalctl -b -u selvage@a | grep -F 'revision 2 is in force, 1 change' && journalctl -b -u selvage@a | grep -F 'spec.fdb'")
	m.Put("/etc/selvage/a.yaml", strings.Replace(good, "vni: 100", "vni: 100000000", 1))
	m.Must("! systemctl reload selvage@a")
	m.Fact("the journal says what is wrong", "journalctl -b -u selvage@a | grep -F '/etc/selvage/a.yaml:6'")
	if r, err := m.Run(t.Context(), "selvage reload a"); err == nil || r.Status != 2 || !strings.Contains(r.Err, "a.yaml:6") {
		t.Errorf("selvage reload of a wrong file: status %d, %q", r.Status, r.Err)
	}
	m.Must("selvage show config | grep -F 'ageing: 200s' && systemctl is-active selvage@a")
	crosses(m)
	m.Put("/etc/selvage/a.yaml", good)
	m.Must("systemctl reload selvage@a")
	ready(m)
}

func restart(t *testing.T, m *debian.Machine) {
	s := begin(t, m)
	m.Must("systemctl restart selvage@a")
	m.Must("selvage status --edge a | grep -F 'taken over'")
	ready(m)
	s.lostNothing(t)
}

// After a stop packets are forwarded still, and the next start takes over.
func stop(_ *testing.T, m *debian.Machine) {
	m.Must("systemctl stop selvage@a && ! systemctl is-active selvage@a && ! pgrep -x selvage")
	crosses(m)
	m.Must("systemctl start selvage@a")
	ready(m)
}

func pid(t *testing.T, m *debian.Machine) int {
	t.Helper()
	return number(t, m, "systemctl show -P MainPID selvage@a")
}

// replaced is the fact that another process than one drives the data path.
func replaced(t *testing.T, m *debian.Machine, by string) {
	t.Helper()
	m.Fact("another process has taken over", "p=$(systemctl show -P MainPID selvage@a); [ $p != 0 ] && [ $p != "+by+" ] && systemctl is-active -q selvage@a")
	ready(m)
}
