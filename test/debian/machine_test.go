package debian

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/test/tier"
)

func TestVM(t *testing.T) {
	tier.Long(t, "nothing: it is for tests of make test-long")
	machine(t, VM)
}

func TestContainer(t *testing.T) {
	tier.Long(t, "nothing: it is for tests of make test-long")
	machine(t, Container)
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "selvage-container-*", "root", "etc", "a b")); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// machine holds what a machine of any kind is.
func machine(t *testing.T, boot func(testing.TB, Options) *Machine) {
	t.Run("machine", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
		m := boot(t, Options{Recipe: Recipe{Suite: "trixie", Packages: []string{"iputils-ping", "iperf3", "frr", "nftables", "ethtool"}}, Files: map[string]string{"/root/file": file}})
		if got := m.Must("cat /root/file; echo; stat -c '%a %U' /root/file"); got != "content\n600 root" {
			t.Errorf("the file: %q", got)
		}
		m.Put("/etc/a b/c", "x'\n$y\n")
		if got := m.Must("cat '/etc/a b/c'"); got != "x'\n$y" {
			t.Errorf("the file that was put: %q", got)
		}
		r, err := m.Run(t.Context(), "echo out; echo err >&2; exit 3")
		if err == nil || r != (Result{"out", "err", 3}) || !strings.Contains(err.Error(), "exit status 3") {
			t.Errorf("result %+v, %v", r, err)
		}
		if out := m.Must("ls /sys/class/net; ls /sys/fs/bpf | grep -v debug; ip netns"); out != "lo" {
			t.Errorf("the machine has interfaces, pins and namespaces %s", out)
		}
		m.Fact("systemd has started all", "systemctl is-system-running --wait || systemctl --failed")
		if failed := m.Must("systemctl --failed --plain --no-legend"); failed != "" {
			t.Errorf("units failed:\n%s", failed)
		}
		m.Must("touch /root/stays /run/goes && mkdir /sys/fs/bpf/goes && ip link add goes type dummy || ip link add goes type veth")
		m.Reboot()
		m.Must("test -e /root/stays && ! test -e /run/goes && ! test -e /sys/fs/bpf/goes && ! test -e /sys/class/net/goes")
		m.Fact("the journal is that of this boot", "journalctl -b --no-pager | grep -q 'Startup finished'")
	})
}
