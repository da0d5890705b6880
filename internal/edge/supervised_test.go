package edge

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/supervise"
)

// systemd is a socket that messages are read from.
type systemd struct {
	mu       sync.Mutex
	messages []string
}

// supervised has the edge of w have a supervisor.
func supervised(t *testing.T, w *world) *systemd {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	s := &systemd{}
	var reading sync.WaitGroup
	reading.Go(func() {
		for buf := make([]byte, 4096); ; {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.messages = append(s.messages, string(buf[:n]))
			s.mu.Unlock()
		}
	})
	t.Cleanup(func() { conn.Close(); reading.Wait() })
	w.opts.Supervisor = supervise.FromEnvironment(func(key string) string {
		return map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "400000"}[key]
	}, 1)
	return s
}

// count is how many messages have these words.
func (s *systemd) count(words string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.messages {
		if strings.Contains(m, words) {
			n++
		}
	}
	return n
}

func TestReadyWhenItForwards(t *testing.T) {
	w := writtenWorld(t, written)
	s := supervised(t, w)
	refuses := errors.New("the kernel refuses")
	w.failApply = func(fib.Tables) error { return refuses }
	_, stop := w.run()
	w.within("the loop turns", func() bool { return s.count("WATCHDOG=1") > 2 })
	if s.count("READY=1") != 0 {
		t.Fatal("ready without tables")
	}
	w.set(func() { w.failApply = nil })
	w.within("it is ready", func() bool { return s.count("READY=1\nSTATUS=") == 1 })
	if err := stop(); err != nil {
		t.Error(err)
	}
	w.within("it stops", func() bool { return s.count("STOPPING=1") == 1 })
	if n := s.count("READY=1"); n != 1 {
		t.Errorf("ready %d times", n)
	}
}

// Without the interface of tunnels a start is not done, and says what is missing.
func TestReadyWithUnderlay(t *testing.T) {
	w := writtenWorld(t, written)
	s := supervised(t, w)
	eth0 := w.hostState.Links["eth0"]
	delete(w.hostState.Links, "eth0")
	w.run()
	w.within("the loop turns", func() bool { return s.count("WATCHDOG=1") > 2 })
	if s.count("READY=1") != 0 {
		t.Fatal("ready without an underlay")
	}
	w.set(func() { w.hostState.Links["eth0"] = eth0 })
	w.within("it is ready", func() bool { return s.count("READY=1") == 1 })
}

// The watchdog hears nothing of a loop that stands.
func TestWatchdogOfALoopThatStands(t *testing.T) {
	w := writtenWorld(t, written)
	s := supervised(t, w)
	w.run()
	w.within("the loop turns", func() bool { return s.count("WATCHDOG=1") > 2 })
	wait := make(chan struct{})
	w.set(func() { w.preparing = wait })
	w.within("the loop stands", func() bool {
		before := s.count("WATCHDOG=1")
		select {
		case <-time.After(300 * time.Millisecond):
		case <-t.Context().Done():
		}
		return s.count("WATCHDOG=1") == before
	})
	close(wait)
	now := s.count("WATCHDOG=1")
	w.within("it turns again", func() bool { return s.count("WATCHDOG=1") > now })
}

func TestReload(t *testing.T) {
	w := writtenWorld(t, written)
	s := supervised(t, w)
	c, _ := w.run()
	w.write(more())
	info, err := c.Config().Reload(t.Context(), "", true)
	if err != nil || info.Applied || len(info.Changes) != 1 || w.segments() != "blue" {
		t.Errorf("dry run: %+v, %v, segments %q", info, err, w.segments())
	}
	info, err = c.Config().Reload(t.Context(), "alice", false)
	if err != nil || !info.Applied || info.Revision.ID != 2 || info.Revision.What != "reload" || !strings.HasSuffix(info.Revision.By, " for alice") {
		t.Errorf("reload: %+v, %v", info, err)
	}
	if got := w.segments(); got != "blue red" { // when the answer is here
		t.Errorf("segments %q", got)
	}
	w.within("systemd heard of the change", func() bool { return s.count("RELOADING=1\nMONOTONIC_USEC=") == 1 && s.count("READY=1") == 2 })
	w.write(edited("vni: 100", "vni: 100000000"))
	_, err = c.Config().Reload(t.Context(), "", false)
	if wrong := (*api.QueryError)(nil); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "a.yaml:7") || w.segments() != "blue red" {
		t.Errorf("a wrong file: %v, segments %q", err, w.segments())
	}
	w.write(written)
	refuses := errors.New("the kernel refuses")
	w.mu.Lock()
	w.failApply = func(t fib.Tables) error {
		if len(t.Segments) == 1 {
			return refuses
		}
		return nil
	}
	w.mu.Unlock()
	if _, err = c.Config().Reload(t.Context(), "", false); err == nil || !strings.Contains(err.Error(), "the kernel refuses") || w.segments() != "blue red" {
		t.Errorf("a file that cannot be applied: %v, segments %q", err, w.segments())
	}
}

func TestNameOfTheFile(t *testing.T) {
	w := writtenWorld(t, written)
	w.opts.Name = "b"
	if err := Run(t.Context(), w.opts); err == nil || !strings.Contains(err.Error(), "metadata.name is a, and edge b was to run") {
		t.Errorf("Run: %v", err)
	}
}
