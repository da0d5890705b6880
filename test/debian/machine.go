// Package debian boots machines for tests: Debian with its systemd, as a container on this kernel or as a virtual
// machine with Debian's own.
//
// Its one invariant: nothing stays but the images in the cache. A machine ends with its test, or with the process of the
// test however that ends; it has no network to anywhere; what it writes is gone. A container boots in seconds. QEMU uses
// KVM where the processor has it, else it emulates one, and a boot takes a minute. It is for tests only, and for facts
// that need a boot, an init or a kernel of their own: namespaces (lab/topo) take a hundredth of the time.
package debian

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
)

// Options are what a machine has besides its root.
type Options struct {
	Recipe
	Files map[string]string // files of this machine, by their paths in the other

	// Of virtual machines alone.
	Memory, CPUs int      // MiB, and how many; 0: 1024 and 2
	Args         []string // of QEMU besides, as "-netdev", "…"
	Namespace    string   // of the network that QEMU's taps are in; "" is that of the test
}

// Machine is one that runs.
type Machine struct {
	t    testing.TB
	host host
	// Emulated is a machine whose processor is QEMU's software: 20 times slower or more.
	Emulated bool
}

// host is what a machine runs on.
type host interface {
	// Begin starts a shell script, and does not wait for it.
	begin(ctx context.Context, script string) (process, error)
	// Reboot has the machine go down in an orderly way, and starts it again.
	reboot(ctx context.Context) error
	// Ended is closed when it does not run any more, after the last start.
	ended() <-chan struct{}
	// Console is what it wrote there.
	console() string
}

// process is a script that runs in a machine.
type process interface {
	wait(ctx context.Context) (Result, error)
}

// In is the machine for a part of the test.
func (m *Machine) In(t testing.TB) *Machine { return &Machine{t, m.host, m.Emulated} }

// running waits until the machine answers, after another boot than before.
func (m *Machine) running(before string) {
	m.t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithCancelCause(m.t.Context())
	defer cancel(nil)
	go func() {
		select {
		case <-m.host.ended():
			cancel(errors.New("it has ended"))
		case <-ctx.Done():
		}
	}()
	err := await.Within(ctx, bootMost, "the machine to boot", func() error {
		now, err := m.BootID()
		if err == nil && now == before {
			err = errors.New("it has not gone down yet")
		}
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Logf("booted in %s", time.Since(begin).Round(100*time.Millisecond))
}

// bootMost bounds a boot.
const bootMost = 5 * time.Minute

// BootID tells one boot from another.
func (m *Machine) BootID() (string, error) {
	r, err := m.Run(m.t.Context(), "cat /proc/sys/kernel/random/boot_id")
	return r.Out, err
}

// Reboot boots the machine again, in an orderly way.
func (m *Machine) Reboot() {
	m.t.Helper()
	before, err := m.BootID()
	if err != nil {
		m.t.Fatal(err)
	}
	if err := m.host.reboot(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
	m.running(before)
}

// Put writes a file of a few kilobytes; larger ones are in Options.
func (m *Machine) Put(path, content string) {
	m.t.Helper()
	text := base64.StdEncoding.EncodeToString([]byte(content))
	m.Must("mkdir -p \"$(dirname '" + path + "')\" && base64 -d >'" + path + "' <<'END'\n" + text + "\nEND")
}

// report says what happened in a machine whose test failed.
func (m *Machine) report() {
	if !m.t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), askMost)
	defer cancel()
	m.t.Logf("journal:\n%s\nconsole:\n%s", m.journal(ctx), m.host.console())
}

// journal is what its units said last.
func (m *Machine) journal(ctx context.Context) string {
	r, err := m.Run(ctx, "journalctl -b --no-pager -n 60 -o short-monotonic")
	if err != nil {
		return err.Error()
	}
	return r.Out
}

func missing(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}

func tail(path string) string {
	const most = 8 << 10
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return strings.ToValidUTF8(string(text[max(0, len(text)-most):]), "?")
}

// ended is the error of a script that did not succeed.
func ended(r Result, signal int) error {
	if r.Status == 0 && signal == 0 {
		return nil
	}
	return fmt.Errorf("exit status %d, signal %d: %s", r.Status, signal, strings.TrimSpace(r.Out+"\n"+r.Err))
}
