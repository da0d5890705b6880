package supervise

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// listen is a socket as systemd has it, and the supervisor behind it.
func listen(t *testing.T, name string, watchdog time.Duration) (*Supervisor, *net.UnixConn) {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return FromEnvironment(func(key string) string {
		return map[string]string{
			"NOTIFY_SOCKET": name, "WATCHDOG_USEC": strconv.FormatInt(watchdog.Microseconds(), 10), "WATCHDOG_PID": strconv.Itoa(os.Getpid()),
		}[key]
	}, os.Getpid()), conn
}

// said are the messages that came.
func said(t *testing.T, conn *net.UnixConn) (messages []string) {
	t.Helper()
	for {
		buf := make([]byte, 4096)
		if err := conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Read(buf)
		if err != nil {
			return messages
		}
		messages = append(messages, string(buf[:n]))
	}
}

func want(t *testing.T, conn *net.UnixConn, messages ...string) {
	t.Helper()
	got := said(t, conn)
	if len(got) != len(messages) {
		t.Fatalf("messages %q, want %q", got, messages)
	}
	for i := range messages {
		if !strings.HasPrefix(got[i], messages[i]) {
			t.Errorf("message %q, want %q", got[i], messages[i])
		}
	}
}

func TestMessages(t *testing.T) {
	for name, socket := range map[string]string{"Path": filepath.Join(t.TempDir(), "notify"), "Abstract": "@selvage-supervise-" + strconv.Itoa(os.Getpid())} {
		t.Run(name, func(t *testing.T) {
			s, conn := listen(t, socket, time.Minute)
			s.Changing()() // a change before it is ready is part of the start
			s.Status(line("waits for eth1"))
			want(t, conn, "STATUS=waits for eth1")
			s.Ready("works")
			s.Ready("works")
			s.Status(line("works\nREADY=0"))
			want(t, conn, "READY=1\nSTATUS=works", "STATUS=works READY=0")
			end := s.Changing()
			want(t, conn, "RELOADING=1\nMONOTONIC_USEC=")
			end()
			want(t, conn, "READY=1")
			s.Stopping("goes")
			want(t, conn, "STOPPING=1\nSTATUS=goes")
		})
	}
}

// The watchdog hears of the loop four times in its time, and nothing while the loop stands.
func TestWatchdog(t *testing.T) {
	s, conn := listen(t, filepath.Join(t.TempDir(), "notify"), time.Minute)
	begin := time.Now()
	for elapsed := time.Duration(0); elapsed <= time.Minute; elapsed += 50 * time.Millisecond {
		s.Turned(begin.Add(elapsed))
	}
	want(t, conn, "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1")
	want(t, conn)
}

// Who is not the process that the watchdog is of, or has none, does not tell it.
func TestWatchdogOfAnother(t *testing.T) {
	s, conn := listen(t, filepath.Join(t.TempDir(), "notify"), 0)
	s.Turned(time.Now())
	want(t, conn)
	of := FromEnvironment(func(key string) string {
		return map[string]string{"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}[key]
	}, 2)
	if of.watchdog != 0 {
		t.Errorf("the watchdog of process 1 is that of process 2 too")
	}
}

// Without systemd, or with one that takes nothing, nobody waits.
func TestNobody(t *testing.T) {
	none := FromEnvironment(func(string) string { return "" }, 1)
	if none != nil {
		t.Fatal("a supervisor from nothing")
	}
	s, conn := listen(t, filepath.Join(t.TempDir(), "notify"), time.Second)
	gone, full := &Supervisor{socket: filepath.Join(t.TempDir(), "none")}, s
	for _, s := range []*Supervisor{none, gone} {
		s.Ready("works")
		s.Status(line("works"))
		s.Turned(time.Now())
		s.Changing()()
		s.Starting(t.Context())()
		s.Stopping("goes")
	}
	if !none.IsReady() {
		t.Error("nobody asks whether it is ready")
	}
	begin := time.Now()
	for i := range 600 { // the kernel keeps far fewer datagrams
		full.Status(line(strconv.Itoa(i)))
		if time.Since(begin) > 5*patience {
			break
		}
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("messages that nobody takes kept it for %v", took)
	}
	if len(said(t, conn)) == 0 {
		t.Error("none came")
	}
}

func TestOneLine(t *testing.T) {
	if got := oneLine(strings.Repeat("é", longest)); len(got) > longest+len("…") || !strings.HasSuffix(got, "é…") {
		t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-8:])
	}
}

func line(text string) func() string { return func() string { return text } }
