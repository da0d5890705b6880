// Package supervise tells systemd how this process does, in the protocol of sd_notify(3): a datagram of words to the
// socket that $NOTIFY_SOCKET names.
//
// Its one invariant: nobody waits for systemd. A message that it does not take in a moment is dropped, and without
// systemd there is none. Do not use it to tell operators what is wrong in full: STATUS= is one line.
package supervise

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/background"
)

const (
	// patience is how long a message may wait for room.
	patience = 100 * time.Millisecond
	// longest is the most of a line of status, in bytes.
	longest = 512
	// extension is what a start may take beyond now, asked for again and again, and startMost all of it.
	extension, extendEvery, startMost = time.Minute, 10 * time.Second, 15 * time.Minute
	// changeMost is how long a change of the configuration may keep the loop from turning.
	changeMost = 5 * time.Minute
)

// Supervisor is the systemd that started this process. Nil is nobody.
type Supervisor struct {
	socket   string
	watchdog time.Duration // the loop has to turn this often; 0: nobody asks

	mu     sync.Mutex
	ready  bool
	status string
	turned time.Time // of the loop, as was told last
}

// FromEnvironment is who the environment names, as getenv reads it, for a process; nil when it names nobody.
func FromEnvironment(getenv func(string) string, pid int) *Supervisor {
	socket := getenv("NOTIFY_SOCKET")
	if socket == "" || socket[0] != '/' && socket[0] != '@' {
		return nil
	}
	s := &Supervisor{socket: socket}
	if of := getenv("WATCHDOG_PID"); of != "" && of != strconv.Itoa(pid) { // of the process that started this one
		return s
	}
	if usec, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64); err == nil && usec > 0 {
		s.watchdog = time.Duration(usec) * time.Microsecond
	}
	return s
}

// Starting has systemd wait for a start that takes long, until ctx ends or the returned function is called. A start that
// hangs is not waited for: after a quarter of an hour nothing more is asked for.
func (s *Supervisor) Starting(ctx context.Context) (end func()) {
	if s == nil {
		return func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, startMost)
	endAsking := background.Every(ctx, extendEvery, func() { s.send(extend(extension)) })
	return func() { cancel(); endAsking() }
}

// Ready says that the data path forwards. What was said before is not said again.
func (s *Supervisor) Ready(status string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready {
		s.ready = true
		s.status = oneLine(status)
		s.send("READY=1", "STATUS="+s.status)
		return
	}
	s.say(status)
}

// IsReady tells whether that was said.
func (s *Supervisor) IsReady() bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

// Status says in one line how it does, when that is another than was said last. Without systemd the line is not made.
func (s *Supervisor) Status(line func() string) {
	if s == nil {
		return
	}
	status := line()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.say(status)
}

func (s *Supervisor) say(status string) {
	if status = oneLine(status); status != s.status {
		s.status = status
		s.send("STATUS=" + status)
	}
}

// Changing says that another configuration comes into force, until the returned function is called. The watchdog waits
// for that longer than for the loop.
func (s *Supervisor) Changing() (end func()) {
	if s == nil || !s.IsReady() {
		return func() {}
	}
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // it cannot fail
	s.send("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/int64(time.Microsecond)), extend(changeMost))
	return func() { s.send("READY=1") }
}

// Turned is called each time that the loop turns; now and then that is told.
func (s *Supervisor) Turned(now time.Time) {
	if s == nil || s.watchdog == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.turned) < s.watchdog/4 {
		return
	}
	s.turned = now
	s.send("WATCHDOG=1")
}

// Stopping says that the process ends.
func (s *Supervisor) Stopping(status string) {
	if s != nil {
		s.send("STOPPING=1", "STATUS="+oneLine(status))
	}
}

func extend(by time.Duration) string {
	return fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", by.Microseconds())
}

// oneLine is what a line of status may have: nothing that ends it, and not too much.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}

// send sends a message. One that gets lost is no error: the next says as much.
func (s *Supervisor) send(words ...string) {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.socket, Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close()
	if conn.SetWriteDeadline(time.Now().Add(patience)) == nil {
		_, _ = conn.Write([]byte(strings.Join(words, "\n")))
	}
}
