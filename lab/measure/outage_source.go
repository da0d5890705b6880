package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// OutageSource sends packets in UDP flows and lines in TCP connections to a OutageTarget,
// steadily and whether answered or not, until SIGTERM. Each second's tenth it prints
// what is silent, and in the end what came back.
type OutageSource struct {
	Endpoint
	Flows        int           `default:"16" help:"UDP flows"`
	Interval     time.Duration `default:"1ms" help:"between two packets of a flow"`
	Connections  int           `default:"100" help:"TCP connections"`
	LineInterval time.Duration `default:"100ms" help:"between two lines of a connection"`
}

// outageLine is a line that the source prints: a state, and at last the report.
type outageLine struct {
	At time.Duration `json:"at"`
	// Silent flows and connections have not been answered as often as they should have.
	Silent  int `json:"silent"`
	Waiting int `json:"waiting"`
	// Unanswered ones have never been.
	Unanswered int                 `json:"unanswered"`
	Report     *outageSourceReport `json:"report,omitempty"`
}

type outageSourceReport struct {
	Flows       []OutageFlow `json:"flows"`
	Connections []OutageFlow `json:"connections"`
	// Late is the longest that the source itself was held up.
	Late time.Duration `json:"late"`
}

const (
	outageTell     = 100 * time.Millisecond
	outageDrain    = 300 * time.Millisecond // for the last answers
	outagePatience = 5 * time.Second        // to connect
	// outageSilent is how many intervals without an answer are silence.
	outageSilent = 3
	// outageFloor is the shortest silence that a state tells of.
	outageFloor = 50 * time.Millisecond
)

// outageTalk is a flow or a connection with what was sent in it.
type outageTalk struct {
	outageTrack
	stream outageStream // its fd is the flow's too
	number uint32
	seq    uint32        // next
	due    time.Duration // of the next
	sent   time.Duration // the last one
	failed error
	ended  time.Duration
}

type outageSourceRun struct {
	*OutageSource
	*outagePoll
	timer          int
	flows          []*outageTalk
	connections    []*outageTalk
	byFD           map[int]*outageTalk
	reported, late time.Duration
	pauses         []outagePause
}

// outagePause is a time in which the source was not let send.
type outagePause struct{ from, to time.Duration }

// Run sends, and prints states and the report to standard output.
func (s *OutageSource) Run() error {
	poll, err := newOutagePoll()
	if err != nil {
		return err
	}
	run := &outageSourceRun{OutageSource: s, outagePoll: poll, byFD: map[int]*outageTalk{}}
	if err := run.open(); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for !run.stopped.Load() {
		if err := run.wait(run.ready); err != nil {
			return err
		}
		if now := run.now(); now >= run.reported+outageTell {
			run.reported = now
			if err := out.Encode(run.state(now)); err != nil {
				return err
			}
		}
	}
	return out.Encode(outageLine{At: run.now(), Report: run.report()})
}

// open connects everything and begins.
func (r *outageSourceRun) open() error {
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
func (r *outageSourceRun) connect() (int, error) {
	fd, err := openSocket(r.Addr, unix.SOCK_STREAM)
	if err != nil {
		return -1, err
	}
	most := unix.NsecToTimeval(outagePatience.Nanoseconds())
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

func (r *outageSourceRun) adopt(all *[]*outageTalk, fd int, interval time.Duration) error {
	t := &outageTalk{outageTrack: outageTrack{interval: interval, paused: r.paused}, stream: outageStream{fd: fd}, number: uint32(len(*all))}
	*all = append(*all, t)
	r.byFD[fd] = t
	return r.add(fd)
}

func (r *outageSourceRun) ready(fd int) error {
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
		record := outageRecordOf(p)
		t.note(record.seq, record.sent, r.now())
		return nil
	})
	if err != nil {
		return r.fail(t, err)
	}
	return nil
}

// datagram takes one answer; epoll tells of the next.
func (r *outageSourceRun) datagram(t *outageTalk) error {
	var buffer [outageRecordSize]byte
	n, err := unix.Read(t.stream.fd, buffer[:])
	switch {
	case err == nil && n == outageRecordSize:
		record := outageRecordOf(buffer[:])
		t.note(record.seq, record.sent, r.now())
	case err == nil, outageTransient(err):
	default:
		return fmt.Errorf("receive: %w", err)
	}
	return nil
}

// outageTransient says whether an error of a UDP socket is what an ICMP message or a route
// said of one packet, which then is lost.
func outageTransient(err error) bool {
	for _, is := range []unix.Errno{unix.EAGAIN, unix.EINTR, unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.ENOBUFS, unix.EPERM} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// fail takes down the end of a connection; nobody opens it again.
func (r *outageSourceRun) fail(t *outageTalk, err error) error {
	t.failed, t.ended = err, r.now()
	return unix.Close(t.stream.fd)
}

// send sends whatever is due. What was due while the source was held up is left out: all
// at once it would be a burst, of which queues lose what no fault did.
func (r *outageSourceRun) send() {
	var buffer [outageRecordSize]byte
	if held := r.now() - r.flows[0].due; held >= outageNotice {
		r.late = max(r.late, held)
		r.pauses = append(r.pauses, outagePause{r.flows[0].due, r.now()})
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
func (r *outageSourceRun) due(t *outageTalk, p []byte) bool {
	now := r.now()
	if now < t.due {
		return false
	}
	outageRecord{t.number, t.seq, now}.put(p)
	t.seq, t.sent = t.seq+1, now
	t.due += t.interval * (1 + (now-t.due)/t.interval)
	return true
}

// paused is for how long the source was held up between two times.
func (r *outageSourceRun) paused(from, to time.Duration) (sum time.Duration) {
	for _, p := range r.pauses {
		sum += max(0, min(p.to, to)-max(p.from, from))
	}
	return sum
}

// state says what is silent. Whatever failed is not: it will not come back.
func (r *outageSourceRun) state(now time.Duration) outageLine {
	line := outageLine{At: now}
	count := func(all []*outageTalk, silent *int) {
		for _, t := range all {
			switch {
			case t.failed != nil:
			case !t.started:
				line.Unanswered++
			case now-t.arrived > max(outageSilent*t.interval, outageFloor):
				*silent++
			}
		}
	}
	count(r.flows, &line.Silent)
	count(r.connections, &line.Waiting)
	return line
}

// report waits for the last answers.
func (r *outageSourceRun) report() *outageSourceReport {
	stop := r.now() + outageDrain
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
	report := &outageSourceReport{Flows: ends(r.flows), Connections: ends(r.connections), Late: r.late}
	return report
}

func ends(all []*outageTalk) []OutageFlow {
	flows := make([]OutageFlow, len(all))
	for i, t := range all {
		flows[i] = t.end(int(t.seq), t.sent)
		if t.failed != nil {
			flows[i].Error, flows[i].Ended = t.failed.Error(), t.ended
		}
	}
	return flows
}
