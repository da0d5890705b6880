package experiments_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/test/testprogram"
	"github.com/selvage/selvage/test/tier"
)

// A command in the shell finds hosts, edges and helpers, and its exit status is the program's.
// What it leaves running goes too.
func TestShell(t *testing.T) {
	p := start(t, "lab", "shell", "-c", `
		set -e
		on guest1 ping -c 1 -W 5 10.0.0.2
		on guest1 ping -c 1 -W 5 fd00::2
		on host2 ip -br address show u0
		selvage ports --edge host1
		selvage prove --edge host2
		grep -h remotes host1.yaml $LAB/host2.yaml
		cat README
		sed -i 's/vni: 100/vni: 101/' host1.yaml host2.yaml
		reload host1
		reload host2
		on guest1 ping -c 1 -W 5 10.0.0.2
		selvage trace --edge host1 --port guest1 --src-mac 02:00:00:00:00:01 --dst-mac 02:00:00:00:00:02 'icmp 10.0.0.1 > 10.0.0.2'
		kill -9 $(edge-pid host1)
		on guest1 ping -c 1 -W 5 10.0.0.2
		restart host1
		restart host2
		on guest1 ping -c 1 -W 5 10.0.0.2
		selvage status --edge host1
		on guest1 setsid sleep 1000 >/dev/null 2>&1 &
		setsid tail -f host1.log >/dev/null 2>&1 &
		exit 7`)
	if code := p.end(); code != 7 {
		t.Fatalf("exit status %d:\n%s%s", code, &p.stdout, &p.stderr)
	}
	for _, want := range []string{
		"1 received", "192.0.2.2/24", "guest1", "proven", "remotes: [192.0.2.2]", "remotes: [192.0.2.1]",
		"guest1 --1450-- host1 ==1500== host2 --1450-- guest2", `msg="configuration reloaded" edge=host2`, "VNI 101", "taken over from an earlier process",
	} {
		if !strings.Contains(p.stdout.String(), want) {
			t.Errorf("no %q in\n%s", want, &p.stdout)
		}
	}
	p.checkGone()
}

// What is wrong is said by the helpers, and changes nothing.
func TestShellMistakes(t *testing.T) {
	p := start(t, "lab", "shell", "-c", `
		on host3 true; echo on $?
		reload guest1; echo reload $?
		restart; echo restart $?
		sed -i 's/vni: 100/vnni: 100/' host1.yaml
		reload host1; echo reload $?
		restart host1; echo restart $?
		sed -i 's/vnni: 100/vni: 100/; s/name: host1/name: other/' host1.yaml
		reload host1; echo reload $?
		on guest1 ping -c 1 -W 5 10.0.0.2 >/dev/null; echo ping $?`)
	if code := p.end(); code != 0 {
		t.Errorf("exit status %d:\n%s", code, &p.stderr)
	}
	got := p.stdout.String()
	for _, want := range []string{"on 2\nreload 2\nrestart 2\nreload 2\nrestart 2\n", "metadata.name changed from host1 to other", "reload 1\nping 0\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for _, want := range []string{"the hosts are host1, host2, guest1, guest2 and guest3", "usage: reload host1", `unknown field; did you mean "vni"?`} {
		if !strings.Contains(p.stderr.String(), want) {
			t.Errorf("no %q in\n%s", want, &p.stderr)
		}
	}
	p.checkGone()
}

// A signal ends the shell with what runs in it, and everything goes.
func TestShellSignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			p := start(t, "lab", "shell", "-c", "echo ready >&2; sleep 1000; true")
			p.awaitLine("ready")
			_ = p.cmd.Process.Signal(s)
			if code := p.end(); code != 1 || !strings.HasSuffix(p.stderr.String(), "ready\nselvage: interrupted\n") {
				t.Errorf("exit status %d:\n%s", code, &p.stderr)
			}
			p.checkGone()
		})
	}
}

// A shell that was killed is removed by restore, with an edge and a command of its own making. Not beside
// other tests, see TestRestore.
func TestShellRestored(t *testing.T) {
	p := start(t, "lab", "shell", "-c", "restart host1 >&2; exec >/dev/null 2>&1; sleep 1000; true")
	p.awaitLine("edge host1 runs")
	_ = p.cmd.Process.Kill()
	p.end()
	if len(p.left()) == 0 {
		t.Error("a killed shell left nothing, so there is nothing to test")
	}
	restore := start(t, "lab", "restore")
	if code := restore.end(); code != 0 || !strings.Contains(restore.stdout.String(), "removed lab ") {
		t.Errorf("exit status %d:\n%s%s", code, &restore.stdout, &restore.stderr)
	}
	p.checkGone()
	again := start(t, "lab", "restore")
	if code := again.end(); code != 0 || !strings.Contains(again.stdout.String(), "nothing to remove") {
		t.Errorf("exit status %d:\n%s%s", code, &again.stdout, &again.stderr)
	}
}

func TestShellNeedsRoot(t *testing.T) {
	tier.Root(t) // to become somebody else
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"selvage", "selvage-lab"} {
		if err := os.WriteFile(filepath.Join(dir, name), self, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // it is root's alone
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "selvage"), "lab", "shell")
	cmd.Dir, cmd.Env = "/", append(os.Environ(), testprogram.Mark+"=shell")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if want := "selvage: network namespaces and BPF need root: run it with sudo\n"; err == nil || string(out) != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
}

// On a terminal there is a greeting and a prompt. Ctrl-C is the command's, Ctrl-D and a
// terminal that is closed end everything.
func TestShellInteractive(t *testing.T) {
	for _, shell := range []string{"/bin/bash", "/bin/sh"} {
		for _, hangup := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, hangup=%t", filepath.Base(shell), hangup), func(t *testing.T) {
				t.Parallel()
				p := startOnTerminal(t, shell)
				p.await("cat $LAB/README")
				p.await("lab# ")
				p.types("on guest1 ping 10.0.0.2\n")
				p.await("64 bytes from 10.0.0.2: icmp_seq=2")
				p.types("\x03")
				p.await("packets transmitted")
				p.types("echo still $((1+1)) here\n")
				p.await("still 2 here")
				p.types("tail -f host1.log &\n")
				if hangup {
					p.terminal.Close()
				} else {
					// A shell at its prompt reads the key; before, the terminal takes it for an end of input, of
					// which a shell that then begins to read by keys hears nothing.
					p.types("echo the $((2+1))rd\n")
					p.await("the 3rd")
					p.await("lab# ")
					p.types("\x04")
				}
				if code := p.end(); code != 0 && !hangup {
					t.Errorf("exit status %d:\n%s", code, &p.stderr)
				}
				p.checkGone()
			})
		}
	}
}

// onTerminal is a selvage lab shell on a terminal of its own.
type onTerminal struct {
	*program
	terminal *os.File // the side of who types
	mu       sync.Mutex
	screen   bytes.Buffer
	seen     int
}

func startOnTerminal(t *testing.T, shell string) *onTerminal {
	t.Helper()
	tier.Root(t)
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unlock(master)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &onTerminal{program: newProgram(t, "lab", "shell"), terminal: master}
	p.cmd.Env = append(p.cmd.Env, "SHELL="+shell, "HOME="+t.TempDir(), "TERM=dumb")
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = slave, slave, slave
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p.run(func() { _ = p.cmd.Wait() }) // the exit status says it too
	slave.Close()
	t.Cleanup(func() { master.Close() })
	go func() {
		part := make([]byte, 4096)
		for {
			n, err := master.Read(part)
			p.mu.Lock()
			p.screen.Write(part[:n])
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return p
}

// unlock readies a terminal for its other side, and returns the number of that. Not by Fd,
// after which Close would wait for a Read.
func unlock(master *os.File) (number int, err error) {
	raw, err := master.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Control(func(fd uintptr) {
		if number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN); err == nil {
			err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0)
		}
	})
	return number, errors.Join(failed, err)
}

func (p *onTerminal) types(text string) {
	p.t.Helper()
	if _, err := p.terminal.WriteString(text); err != nil {
		p.t.Fatal(err)
	}
}

// await waits until the screen has the text, after what was awaited before.
func (p *onTerminal) await(text string) {
	p.t.Helper()
	err := await.Within(p.t.Context(), patience, text, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		rest := p.screen.String()[p.seen:]
		at := strings.Index(rest, text)
		if at < 0 {
			return fmt.Errorf("the screen has %q", rest)
		}
		p.seen += at + len(text)
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
}
