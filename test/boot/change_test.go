package boot

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/test/debian"
)

func kill(t *testing.T, m *debian.Machine) {
	s, was := begin(t, m), pid(t, m)
	m.Must("kill -KILL " + strconv.Itoa(was))
	replaced(t, m, strconv.Itoa(was))
	s.lostNothing(t)
}

// A process that does not turn its loop is ended, and packets go on.
func watchdog(t *testing.T, m *debian.Machine) {
	m.Put("/etc/systemd/system/selvage@a.service.d/fast.conf", "[Service]\nWatchdogSec=20\n")
	m.Must("systemctl daemon-reload && systemctl restart selvage@a")
	ready(m)
	s, was := begin(t, m), pid(t, m)
	m.Must("kill -STOP " + strconv.Itoa(was))
	replaced(t, m, strconv.Itoa(was))
	m.Must("journalctl -b -u selvage@a | grep -F 'Watchdog timeout'")
	s.lostNothing(t)
	m.Must("rm -r /etc/systemd/system/selvage@a.service.d && systemctl daemon-reload && systemctl restart selvage@a")
	ready(m)
}

// install another build under traffic; the edge that ran runs again, with the new program.
func change(t *testing.T, m *debian.Machine, deb, version string) {
	t.Helper()
	m.Put("/etc/selvage/a.yaml", edgeFile(t)+"# by the operator\n")
	s, was := begin(t, m), pid(t, m)
	m.Must("apt-get install -y --allow-downgrades --no-install-recommends " + deb)
	replaced(t, m, strconv.Itoa(was))
	m.Must("selvage status --edge a | grep -F " + version + " && selvage status --edge a | grep -F 'taken over'")
	m.Must("grep -F 'by the operator' /etc/selvage/a.yaml")
	s.lostNothing(t)
}

func upgrade(t *testing.T, m *debian.Machine) { change(t, m, "/root/newer.deb", newer) }

func rollBack(t *testing.T, m *debian.Machine) { change(t, m, "/root/older.deb", older) }

// hostState is what an edge must not leave changed.
func hostState(m *debian.Machine) string {
	return m.Must("ip -o link | sed 's/@[^:]*//; s/^[0-9]*: //' | awk '{print $1,$2,$3,$4,$5}' | sort; tc qdisc show; " +
		"sysctl -a 2>/dev/null | grep '^net' | grep -v -e stable_secret -e file-nr -e _max -e nf_conntrack | sort; ls /sys/fs/bpf")
}

// unchanged is the fact that the host is what it was.
func unchanged(t *testing.T, m *debian.Machine, before string) {
	t.Helper()
	if diff := cmp.Diff(strings.Split(before, "\n"), strings.Split(hostState(m), "\n")); diff != "" {
		t.Errorf("the host is not what it was (- was, + is):\n%s", diff)
	}
}

// After the removal the data path is gone, and the host is what it was; configurations stay.
func remove(t *testing.T, m *debian.Machine, before string) {
	m.Must("apt-get remove -y selvage")
	unchanged(t, m, before)
	m.Must("test -e /etc/selvage/a.yaml && ! pgrep -x selvage && ! test -e /sys/fs/bpf/selvage/a")
	if _, err := m.Run(t.Context(), guest+"ping -c 1 -W 1 10.0.0.2"); err == nil {
		t.Error("packets cross without a data path")
	}
}

// After a purge what operators wrote is all that is left.
func purge(t *testing.T, m *debian.Machine, before string) {
	m.Must("apt-get purge -y selvage")
	left := m.Must("find / -xdev -path /proc -prune -o -name '*selvage*' -print | grep -v -e '^/root/' -e '^/var/log' -e '^/var/lib/dpkg' -e '^/var/cache'; ls /run/selvage /var/lib/selvage 2>/dev/null; true")
	if extra := strings.Fields(left); len(extra) > 1 || len(extra) == 1 && extra[0] != "/etc/selvage" {
		t.Errorf("left:\n%s", left)
	}
	unchanged(t, m, before)
}
