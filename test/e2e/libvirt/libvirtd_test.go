package libvirt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/tier"
)

// startScript runs libvirtd with directories of its own, below the first argument.
const startScript = `set -e
dir=$1
mount --make-rprivate /
for name in etc lib log cache run; do mkdir -p "$dir/$name"; done
mkdir -p /run/libvirt /etc/libvirt /var/lib/libvirt /var/log/libvirt /var/cache/libvirt
mount --bind "$dir/run" /run/libvirt
mount --bind "$dir/etc" /etc/libvirt
mount --bind "$dir/lib" /var/lib/libvirt
mount --bind "$dir/log" /var/log/libvirt
mount --bind "$dir/cache" /var/cache/libvirt
if ! grep -q ^libvirt-qemu: /etc/passwd; then
	(cat /etc/passwd; echo libvirt-qemu:x:64055:64055::/nonexistent:/usr/sbin/nologin) >"$dir/passwd"
	(cat /etc/group; echo libvirt-qemu:x:64055:) >"$dir/group"
	mount --bind "$dir/passwd" /etc/passwd
	mount --bind "$dir/group" /etc/group
fi
exec libvirtd -f "$dir/etc/libvirtd.conf" -p "$dir/libvirtd.pid"
`

// daemon is a libvirtd in the host of the first edge.
type daemon struct {
	*host
	dir     string
	running *topo.Command
}

func (d *daemon) start() {
	d.T.Helper()
	d.running = d.Hosts[0].Command(context.WithoutCancel(d.Ctx), "unshare", "--mount", "sh", "-c", startScript, "sh", d.dir)
	d.running.Log = filepath.Join(d.dir, "libvirtd.log")
	d.running.Env = []string{"PATH=" + filepath.Dir(harness.Program) + ":" + os.Getenv("PATH") + ":/usr/sbin:/sbin"}
	d.Must(d.running.Start())
	d.Fact("libvirtd answers", func() error {
		_, err := d.virsh("version")
		return err
	})
}

func (d *daemon) virsh(words ...string) (string, error) {
	argv := append([]string{"virsh", "-c", "qemu+unix:///system?socket=" + filepath.Join(d.dir, "run", "libvirt-sock")}, words...)
	out, err := d.Hosts[0].Output(d.Ctx, argv...)
	return string(out), err
}

// write writes a file of libvirt's.
func (d *daemon) write(name, text string, mode os.FileMode) {
	d.T.Helper()
	path := filepath.Join(d.dir, "etc", name)
	d.Must(errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode)))
}

// defines has libvirt know the guest of deploy/libvirt/guest.xml, which boots from the network: its firmware asks for
// an address by DHCP.
func (d *daemon) defines(change ...string) {
	d.T.Helper()
	text, err := os.ReadFile(folder + "guest.xml")
	d.Must(err)
	change = append(change, "<selvage:port mac=", fmt.Sprintf("<selvage:port edge=%q mac=", d.Edges["edge1"].Name), "</type>", "</type><boot dev='network'/>")
	change = append(change, "type='kvm'", "type='qemu'") // which every machine has
	file := filepath.Join(d.dir, "guest.xml")
	d.Must(os.WriteFile(file, []byte(strings.NewReplacer(change...).Replace(string(text))), 0o644))
	_, err = d.virsh("define", file)
	d.Must(err)
}

// A guest of a real libvirtd starts with its port, which outlives a restart of libvirtd, and goes with it. One whose
// segment the edge does not have does not start.
func TestLibvirtd(t *testing.T) {
	tier.Long(t, "TestHook, but for libvirtd and a guest of QEMU")
	for tool, pkg := range map[string]string{"libvirtd": "libvirt-daemon libvirt-daemon-driver-qemu", "virsh": "libvirt-clients", "qemu-system-x86_64": "qemu-system-x86"} {
		if _, err := topo.Tool(tool); err != nil {
			t.Skipf("%s is not installed: apt-get install %s", tool, pkg)
		}
	}
	n := newHost(t)
	d := &daemon{host: n, dir: filepath.Join(n.Topo.Dir, "libvirt")}
	hook, err := os.ReadFile(folder + "qemu")
	d.Must(err)
	// libvirt hands no variables on: the state of this test is in its own directory.
	d.write("hooks/qemu.d/selvage", strings.Replace(string(hook), "/run/selvage/libvirt", n.state, 1), 0o755)
	d.write("libvirtd.conf", "listen_tls = 0\nauth_unix_ro = \"none\"\nauth_unix_rw = \"none\"\n", 0o644)
	d.write("qemu.conf", "user = \"root\"\ngroup = \"root\"\nsecurity_driver = \"none\"\ncgroup_controllers = []\nnamespaces = []\nstdio_handler = \"file\"\nremember_owner = 0\n", 0o644)
	d.start()
	d.defines()
	t.Cleanup(func() { _, _ = d.virsh("destroy", "web1") }) // before the lab's own: it outlives libvirtd
	d.Once("the guest starts", func() error {
		_, err := d.virsh("start", "web1")
		return err
	})
	d.has("web1-0")
	d.Once("the port is up", func() error { return d.PortState("edge1", "web1-0", "up") })
	d.Fact("the edge hears the guest's firmware", func() error {
		ports, err := d.Ask("edge1").Ports(d.Ctx)
		for _, p := range ports {
			if p.Name == "web1-0" && p.RxPackets+p.Drops > 0 {
				return err
			}
		}
		return errors.Join(fmt.Errorf("%+v", ports), err)
	})
	d.running.Kill()
	d.start()
	d.has("web1-0")
	d.Once("the guest stops", func() error {
		_, err := d.virsh("destroy", "web1")
		return err
	})
	d.has()
	_, err = d.virsh("undefine", "web1")
	d.Must(err)
	d.defines("segment='blue'", "segment='green'")
	d.Once("a guest of an unknown segment does not start", func() error {
		if out, err := d.virsh("start", "web1"); err == nil || !strings.Contains(err.Error()+out, "green") {
			return fmt.Errorf("it says %s: %w", out, err)
		}
		return nil
	})
	d.has()
	d.Must(d.running.Stop(d.Ctx))
}
