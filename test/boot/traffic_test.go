package boot

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/test/debian"
)

const guest, peer = "ip netns exec guest ", "ip netns exec peer "

// crosses is the fact that packets cross the overlay.
func crosses(m *debian.Machine) {
	m.Fact("the guest reaches the other host", guest+"ping -c 1 -W 2 10.0.0.2")
}

// stream is TCP connections with a rate, and pings beside them, through the overlay.
type stream struct {
	m    *debian.Machine
	tcp  debian.Command
	ping debian.Command
	// before are the segments before it.
	before string
}

func begin(t *testing.T, m *debian.Machine) stream {
	t.Helper()
	m.Must(peer + "iperf3 -s -1 -D >/dev/null 2>&1 && " + guest + "ping -q -c 1 10.0.0.2")
	m.Fact("iperf3 listens", peer+"ss -Hltn sport = 5201 | grep -q LISTEN")
	s := stream{m: m, before: m.Must(segments)}
	load, pause := "-P 4 -b 10M", "0.01"
	if m.Emulated {
		load, pause = "-b 5M", "0.2"
	}
	for what, command := range map[*debian.Command]string{
		&s.tcp:  "/run/tcp.pid iperf3 -J -c 10.0.0.2 -t 600 " + load,
		&s.ping: "/run/ping.pid ping -D -n -i " + pause + " 10.0.0.2",
	} {
		pid, command, _ := strings.Cut(command, " ")
		var err error
		if *what, err = m.Begin(t.Context(), guest+"sh -c 'echo $$ >"+pid+"; exec "+command+"'"); err != nil {
			t.Fatal(err)
		}
	}
	m.Fact("the connections are there", guest+"ss -Htn state established dport = 5201 | grep -q 5201")
	return s
}

// segments are how many the guest sent again, and how many of them the other end had already.
const segments = guest + `nstat -asz TcpRetransSegs TcpExtTCPDSACKRecvSegs | awk '{n[$1] = $2} END {print n["TcpRetransSegs"] + 0, n["TcpExtTCPDSACKRecvSegs"] + 0}'`

// lostNothing ends both: no ping was lost, and no second of the connections was without bytes.
func (s stream) lostNothing(t *testing.T) {
	t.Helper()
	crosses(s.m)
	s.m.Fact("each segment that TCP sent again had arrived before, as the receiver says (RFC 2883)", "set -- "+s.before+" $("+segments+"); echo $@; [ $(($3 - $1)) -le $(($4 - $2)) ]")
	s.m.Must("kill -INT $(cat /run/ping.pid) $(cat /run/tcp.pid)")
	ping, _ := s.ping.Wait(t.Context()) // it was interrupted, which may be an error
	answered, longest := answers(t, ping.Out)
	tcp, _ := s.tcp.Wait(t.Context())
	sent, seconds, retransmits := connections(t, tcp)
	t.Logf("%d pings, 0 lost, at most %s between two answers; TCP for %d s, %d bytes, 0 lost, %d segments sent again that were only late", answered, longest.Round(time.Millisecond), seconds, sent, retransmits)
}

// answers are how many pings were answered, and the longest time between two. All have to be, but those that were on their
// way at the end.
func answers(t *testing.T, out string) (answered int, longest time.Duration) {
	t.Helper()
	last := 0.0
	for line := range strings.Lines(out) {
		var at float64
		if _, err := fmt.Sscanf(line, "[%f]", &at); err != nil || !strings.Contains(line, "bytes from") {
			continue
		}
		_, rest, _ := strings.Cut(line, "icmp_seq=")
		seq, _, _ := strings.Cut(rest, " ")
		if answered++; seq != strconv.Itoa(answered) {
			t.Fatalf("the answer after ping %d is that to %s", answered-1, seq)
		}
		if last != 0 {
			longest = max(longest, time.Duration((at-last)*float64(time.Second)))
		}
		last = at
	}
	if answered == 0 {
		t.Fatalf("no ping was answered:\n%s", out)
	}
	return answered, longest
}

// connections are what iperf3 says of its streams.
func connections(t *testing.T, r debian.Result) (sent int64, seconds, retransmits int) {
	t.Helper()
	type sum struct {
		Bytes       int64   `json:"bytes"`
		Seconds     float64 `json:"seconds"`
		Retransmits int     `json:"retransmits"`
	}
	var report struct {
		Intervals []struct {
			Streams []sum `json:"streams"`
		} `json:"intervals"`
	}
	if err := json.Unmarshal([]byte(r.Out), &report); err != nil || len(report.Intervals) == 0 {
		t.Fatalf("iperf3: %v\n%s\n%s", err, r.Out, r.Err)
	}
	for i, interval := range report.Intervals {
		for j, stream := range interval.Streams {
			sent, retransmits = sent+stream.Bytes, retransmits+stream.Retransmits
			if stream.Bytes == 0 && stream.Seconds > 0.5 {
				t.Errorf("second %d of connection %d has no bytes", i, j)
			}
		}
	}
	return sent, len(report.Intervals), retransmits
}

// number is what a script writes.
func number(t *testing.T, m *debian.Machine, script string) int {
	t.Helper()
	n, err := strconv.Atoi(m.Must(script))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
