package debian

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/selvage/selvage/test/tier"
)

// virtual is a machine of QEMU.
type virtual struct {
	*agent
	accelerator string // "kvm" or "tcg", which is QEMU's emulation
	screen      string // file
	command     *exec.Cmd
	done        <-chan struct{}
}

// VM boots a virtual machine, which ends with the test. It skips where QEMU or mmdebstrap is missing; with CI=true that fails.
func VM(t testing.TB, o Options) *Machine {
	t.Helper()
	tier.Root(t)
	need(t, "qemu-system-x86_64", "mmdebstrap", "mke2fs")
	if runtime.GOARCH != "amd64" {
		t.Skip("machines are of amd64, as this is not: an emulated one takes too long")
	}
	disk, err := o.disk(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	v := &virtual{agent: &agent{socket: filepath.Join(dir, "agent")}, accelerator: accelerator(), screen: filepath.Join(dir, "console")}
	files := filepath.Join(dir, "files")
	if err := pack(files, o.Files); err != nil {
		t.Fatal(err)
	}
	stop, err := v.start(disk, files, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	m := &Machine{t, v, v.accelerator == "tcg"}
	t.Cleanup(m.report)
	m.running("")
	m.Must("tar -x -f /dev/vdb -C / --no-same-owner")
	return m
}

// need skips where one of the programs is missing.
func need(t testing.TB, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			missing(t, fmt.Sprintf("%v: scripts/packages.sh boot installs it", err))
		}
	}
}

func (v *virtual) reboot(ctx context.Context) error {
	return v.call(ctx, "guest-shutdown", map[string]string{"mode": "reboot"}, nil)
}

func (v *virtual) ended() <-chan struct{} { return v.done }

func (v *virtual) console() string { return fmt.Sprintf("%s\n%s", tail(v.screen), v.command.Stderr) }

// accelerator is kvm where the processor virtualises. A /dev/kvm without that runs only kernels that know of it.
func accelerator() string {
	kvm, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return "tcg"
	}
	kvm.Close()
	cpu, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || !strings.Contains(string(cpu), " vmx ") && !strings.Contains(string(cpu), " svm ") {
		return "tcg"
	}
	return "kvm"
}

// start starts QEMU, and returns what ends it.
func (v *virtual) start(disk image, files string, o Options) (stop func(), err error) {
	accel, cpu := "kvm", "host"
	if v.accelerator == "tcg" {
		accel, cpu = "tcg,thread=multi,tb-size=512", "max"
	}
	args := append([]string{
		"qemu-system-x86_64", "-accel", accel, "-cpu", cpu, "-smp", fmt.Sprint(max(o.CPUs, 2)), "-m", fmt.Sprint(max(o.Memory, 1024)),
		"-nodefaults", "-no-user-config", "-display", "none", "-nic", "none",
		"-kernel", disk.kernel, "-initrd", disk.initrd, "-append", "root=/dev/vda rw console=ttyS0 net.ifnames=0 no_timer_check panic=1 quiet",
		"-drive", "file=" + disk.disk + ",format=raw,if=virtio,snapshot=on,cache=unsafe",
		"-drive", "file=" + files + ",format=raw,if=virtio,readonly=on",
		"-chardev", "file,id=console,path=" + v.screen, "-serial", "chardev:console",
		"-device", "virtio-serial", "-chardev", "socket,id=agent,path=" + v.socket + ",server=on,wait=off",
		"-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0", "-device", "virtio-rng-pci",
	}, o.Args...)
	if o.Namespace != "" {
		args = append([]string{"ip", "netns", "exec", o.Namespace}, args...)
	}
	v.command = exec.Command(args[0], args[1:]...)
	v.command.Stderr = &strings.Builder{}
	v.done, err = startMortal(v.command)
	return func() {
		_ = v.command.Process.Kill() // it may have ended
		<-v.done
	}, err
}
