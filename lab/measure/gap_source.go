package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// GapSource sends packets in UDP flows and lines in TCP connections to a GapTarget,
// steadily and whether answered or not, until SIGTERM. Each second's tenth it prints
// what is silent, and in the end what came back.
type GapSource struct {
	Endpoint
	Flows        int           `default:"16" help:"UDP flows"`
	Interval     time.Duration `default:"1ms" help:"between two packets of a flow"`
	Connections  int           `default:"100" help:"TCP connections"`
	LineInterval time.Duration `default:"100ms" help:"between two lines of a connection"`
}

// gapLine is a line that the source prints: a state, and at last the report.
type gapLine struct {
	At time.Duration `json:"at"`
	// Silent flows and connections have not been answered as often as they should have.
	Silent  int `json:"silent"`
	Waiting int `json:"waiting"`
	// Unanswered ones have never been.
	Unanswered int              `json:"unanswered"`
	Report     *gapSourceReport `json:"report,omitempty"`
}

type gapSourceReport struct {
	Flows       []GapFlow `json:"flows"`
	Connections []GapFlow `json:"connections"`
	// Late is the longest that the source itself was held up.
	Late time.Duration `json:"late"`
}

const (
	gapTell     = 100 * time.Millisecond
	gapDrain    = 300 * time.Millisecond // for the last answers
	gapPatience = 5 * time.Second        // to connect
	// gapSilent is how many intervals without an answer are silence.
	gapSilent = 3
	// gapFloor is the shortest silence that a state tells of.
	gapFloor = 50 * time.Millisecond
)

// gapTalk is a flow or a connection with what was sent in it.
type gapTalk struct {
	gapTrack
	stream gapStream // its fd is the flow's too
	number uint32
	seq    uint32        // next
	due    time.Duration // of the next
	sent   time.Duration // the last one
	failed error
	ended  time.Duration
}

type gapSourceRun struct {
	*GapSource
	*gapPoll
	timer       int
	flows       []*gapTalk
	connections []*gapTalk
	byFD        map[int]*gapTalk
	told, late  time.Duration
	pauses      []gapPause
}

// gapPause is a time in which the source was not let send.
type gapPause struct{ from, to time.Duration }

// Run sends, and prints states and the report to standard output.
func (s *GapSource) Run() error {
	poll, err := newGapPoll()
	if err != nil {
		return err
	}
	run := &gapSourceRun{GapSource: s, gapPoll: poll, byFD: map[int]*gapTalk{}}
	if err := run.open(); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for !run.stopped.Load() {
		if err := run.wait(run.ready); err != nil {
			return err
		}
		if now := run.now(); now >= run.told+gapTell {
			run.told = now
			if err := out.Encode(run.state(now)); err != nil {
				return err
			}
		}
	}
	return out.Encode(gapLine{At: run.now(), Report: run.report()})
}

// open connects everything and begins.
func (r *gapSourceRun) open() error {
	for i := range r.Connections {
		fd, err := r.connect()
		if err != nil {
			return fmt.Errorf("connection %d: %w", i+1, err)
		}
		if err := r.adopt(&r.connections, fd, r.LineInterval); err != nil {
			return err
		}
	}
	for range r.Flows {
		fd, err := dial(r.Addr, r.Port, unix.SOCK_DGRAM)
		if err != nil {
			return err
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, udpBuffer); err != nil {
			return fmt.Errorf("SO_RCVBUFFORCE: %w", err)
		}
		if err := r.adopt(&r.flows, fd, r.Interval); err != nil {
			return err
		}
	}
	base := r.now()
	for _, t := range r.flows {
		t.due = base
	}
	for i, t := range r.connections { // not all at once
		t.due = base + time.Duration(i)*r.LineInterval/time.Duration(len(r.connections))
	}
	var err error
	r.timer, err = r.tick(r.Interval)
	return err
}

// connect opens a TCP connection with patience.
func (r *gapSourceRun) connect() (int, error) {
	fd, err := openSocket(r.Addr, unix.SOCK_STREAM)
	if err != nil {
		return -1, err
	}
	most := unix.NsecToTimeval(gapPatience.Nanoseconds())
	err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &most)
	if err == nil {
		err = unix.Connect(fd, sockaddr(r.Addr, r.Port))
	}
	if err == nil {
		err = prepareStream(fd)
	}
	if err != nil {
		return -1, errors.Join(fmt.Errorf("connect to %s port %d: %w", r.Addr, r.Port, err), unix.Close(fd))
	}
	return fd, nil
}

func (r *gapSourceRun) adopt(all *[]*gapTalk, fd int, interval time.Duration) error {
	t := &gapTalk{gapTrack: gapTrack{interval: interval, paused: r.paused}, stream: gapStream{fd: fd}, number: uint32(len(*all))}
	*all = append(*all, t)
	r.byFD[fd] = t
	return r.add(fd)
}

func (r *gapSourceRun) ready(fd int) error {
	if fd == r.timer {
		var expired [8]byte
		if _, err := unix.Read(fd, expired[:]); err != nil && !errors.Is(err, unix.EAGAIN) {
			return fmt.Errorf("timerfd: %w", err)
		}
		r.send()
		return nil
	}
	t := r.byFD[fd]
	if int(t.number) < len(r.flows) && r.flows[t.number] == t {
		return r.datagram(t)
	}
	err := t.stream.read(func(p []byte) error {
		record := gapRecordOf(p)
		t.note(record.seq, record.sent, r.now())
		return nil
	})
	if err != nil {
		return r.fail(t, err)
	}
	return nil
}

// datagram takes one answer; epoll tells of the next.
func (r *gapSourceRun) datagram(t *gapTalk) error {
	var buffer [gapRecordSize]byte
	n, err := unix.Read(t.stream.fd, buffer[:])
	switch {
	case err == nil && n == gapRecordSize:
		record := gapRecordOf(buffer[:])
		t.note(record.seq, record.sent, r.now())
	case err == nil, gapTransient(err):
	default:
		return fmt.Errorf("receive: %w", err)
	}
	return nil
}

// gapTransient says whether an error of a UDP socket is what an ICMP message or a route
// said of one packet, which then is lost.
func gapTransient(err error) bool {
	for _, is := range []unix.Errno{unix.EAGAIN, unix.EINTR, unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.ENOBUFS, unix.EPERM} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// fail takes down the end of a connection; nobody opens it again.
func (r *gapSourceRun) fail(t *gapTalk, err error) error {
	t.failed, t.ended = err, r.now()
	return unix.Close(t.stream.fd)
}

// send sends whatever is due. What was due while the source was held up is left out: all
// at once it would be a burst, of which queues lose what no fault did.
func (r *gapSourceRun) send() {
	var buffer [gapRecordSize]byte
	if held := r.now() - r.flows[0].due; held >= gapNotice {
		r.late = max(r.late, held)
		r.pauses = append(r.pauses, gapPause{r.flows[0].due, r.now()})
	}
	for _, t := range r.flows {
		if r.due(t, buffer[:]) {
			_, _ = unix.Write(t.stream.fd, buffer[:]) // what is not sent is lost
		}
	}
	for _, t := range r.connections {
		if t.failed == nil && r.due(t, buffer[:]) {
			if err := t.stream.write(buffer[:]); err != nil {
				_ = r.fail(t, err)
			}
		}
	}
}

// due makes the next record, if it is time for one.
func (r *gapSourceRun) due(t *gapTalk, p []byte) bool {
	now := r.now()
	if now < t.due {
		return false
	}
	gapRecord{t.number, t.seq, now}.put(p)
	t.seq, t.sent = t.seq+1, now
	t.due += t.interval * (1 + (now-t.due)/t.interval)
	return true
}

// paused is for how long the source was held up between two times.
func (r *gapSourceRun) paused(from, to time.Duration) (sum time.Duration) {
	for _, p := range r.pauses {
		sum += max(0, min(p.to, to)-max(p.from, from))
	}
	return sum
}

// state says what is silent. Whatever failed is not: it will not come back.
func (r *gapSourceRun) state(now time.Duration) gapLine {
	line := gapLine{At: now}
	count := func(all []*gapTalk, silent *int) {
		for _, t := range all {
			switch {
			case t.failed != nil:
			case !t.started:
				line.Unanswered++
			case now-t.arrived > max(gapSilent*t.interval, gapFloor):
				*silent++
			}
		}
	}
	count(r.flows, &line.Silent)
	count(r.connections, &line.Waiting)
	return line
}

// report waits for the last answers.
func (r *gapSourceRun) report() *gapSourceReport {
	stop := r.now() + gapDrain
	for r.now() < stop {
		_ = r.wait(func(fd int) error { // what is broken by now does not matter any more
			if fd != r.timer {
				return r.ready(fd)
			}
			var expired [8]byte
			_, err := unix.Read(fd, expired[:])
			return err
		})
	}
	report := &gapSourceReport{Flows: ends(r.flows), Connections: ends(r.connections), Late: r.late}
	return report
}

func ends(all []*gapTalk) []GapFlow {
	flows := make([]GapFlow, len(all))
	for i, t := range all {
		flows[i] = t.end(int(t.seq), t.sent)
		if t.failed != nil {
			flows[i].Error, flows[i].Ended = t.failed.Error(), t.ended
		}
	}
	return flows
}
