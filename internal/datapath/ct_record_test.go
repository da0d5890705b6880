package datapath

import (
	"flag"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/test/pkttest"
)

var recordConversations = flag.String("record-conversations", "",
	`make those conversations of testdata/conversations anew whose name this matches ("all" for all)`)

// recorded is a conversation between two of the kernel's own TCP stacks, and how it
// was made.
type recorded struct {
	name, about string
	v6          bool
	sysctls     map[string]string // of both ends
	plan        func(crossing) delivery
	script      func(*stage)
}

// orderly says something both ways and closes.
func orderly(s *stage) {
	a, b := s.open()
	s.say(a, b, 10)
	s.say(b, a, 20)
	s.quiet()
	s.close(a, b)
}

// injected opens, adds a packet that an end's kernel has not sent, goes on and closes.
func injected(packet func(s *stage, from, to pkttest.Segment) []byte) func(*stage) {
	return func(s *stage) {
		a, b := s.open()
		s.say(a, b, 10)
		s.say(b, a, 20)
		s.quiet()
		s.inject(sideA, packet(s, s.lastOf(sideA), s.lastOf(sideB)))
		s.quiet()
		s.say(a, b, 30)
		s.quiet()
		s.close(a, b)
	}
}

// reset is one of a's at a distance from what b expects next.
func (s *stage) reset(expected, distance uint32) []byte {
	return s.numbered("rst", expected+distance, 0)
}

func (s *stage) numbered(flags string, seq, ack uint32) []byte {
	return s.words(sideA, clientPort, serverPort, flags+numbersOf(seq, ack))
}

var conversations = []recorded{
	{name: "orderly", about: "data both ways, then the opener closes", script: orderly},
	{name: "orderly-ipv6", about: "the same with IPv6", v6: true, script: orderly},
	{name: "orderly-ecn", about: "the SYN asks for ECN", sysctls: map[string]string{"net/ipv4/tcp_ecn": "1"}, script: orderly},
	{name: "no-options", about: "without window scaling and timestamps",
		sysctls: map[string]string{"net/ipv4/tcp_window_scaling": "0", "net/ipv4/tcp_timestamps": "0", "net/ipv4/tcp_sack": "0"}, script: orderly},
	{name: "closed-by-server", about: "the end that was opened to closes first", script: func(s *stage) {
		a, b := s.open()
		s.say(a, b, 10)
		s.close(b, a)
	}},
	{name: "data-lost", about: "a segment is lost behind the firewall, one before it",
		plan: eitherVerdict(nth(1, sideA, pkttest.PSH, lost), nth(1, sideB, pkttest.PSH, unseen)), script: orderly},
	{name: "reordered", about: "two segments change places", plan: nth(1, sideA, pkttest.PSH, swapped), script: func(s *stage) {
		a, b := s.open()
		for range 3 {
			_, err := unix.Write(a, make([]byte, 10))
			s.check(err)
		}
		s.read(b, 30)
		s.quiet()
		s.close(a, b)
	}},
	{name: "syn-lost", about: "the SYN is sent again after a second", plan: nth(1, sideA, pkttest.SYN, lost), script: orderly},
	{name: "syn-ack-lost", about: "the answer to the SYN is lost", plan: nth(1, sideB, pkttest.SYN, lost), script: orderly},
	{name: "last-ack-lost", about: "the handshake's last segment is never seen", plan: nth(1, sideA, pkttest.ACK, unseen), script: orderly},
	{name: "last-ack-lost-v6", about: "the same with IPv6, lost behind the firewall", v6: true, plan: nth(1, sideA, pkttest.ACK, lost), script: orderly},
	{name: "simultaneous-open", about: "both ends open at once", plan: nth(1, sideA, pkttest.SYN, late), script: simultaneousOpen},
	{name: "simultaneous-open-v6", about: "both ends open at once, IPv6", v6: true, plan: nth(1, sideA, pkttest.SYN, late), script: simultaneousOpen},
	{name: "simultaneous-close", about: "both ends close at once", plan: nth(1, sideA, pkttest.FIN, late), script: func(s *stage) {
		a, b := s.open()
		s.say(a, b, 10)
		s.quiet()
		s.check(unix.Shutdown(a, unix.SHUT_WR))
		s.check(unix.Shutdown(b, unix.SHUT_WR))
		s.quiet()
	}},
	{name: "half-close", about: "the opener closes its direction and is told a lot", script: func(s *stage) {
		a, b := s.open()
		s.say(a, b, 10)
		s.check(unix.Shutdown(a, unix.SHUT_WR))
		s.readEnd(b)
		for range 3 {
			s.say(b, a, 500)
			s.quiet()
		}
		s.check(unix.Close(b))
		s.readEnd(a)
		s.quiet()
	}},
	{name: "fin-lost", about: "the FIN is lost and sent again", plan: nth(1, sideA, pkttest.FIN, lost), script: orderly},
	{name: "last-fin-ack-lost", about: "the ACK of the last FIN is lost", script: func(s *stage) {
		acks := nth(1, sideA, pkttest.ACK, lost)
		closing := false
		s.plan = func(p crossing) delivery {
			closing = closing || p.side == sideB && p.Flags&pkttest.FIN != 0
			if closing {
				return acks(p)
			}
			return arrives
		}
		orderly(s)
		s.until("the last FIN again", func() bool { return s.sent(sideB, pkttest.FIN) >= 2 })
		s.quiet()
	}},
	{name: "refused", about: "nobody listens", script: refusedConnection},
	{name: "refused-ipv6", about: "nobody listens, IPv6", v6: true, script: refusedConnection},
	{name: "refused-wrongly", about: "a reset that acknowledges another SYN, then the real answer", plan: nth(1, sideA, pkttest.SYN, lost), script: func(s *stage) {
		listener := s.peers[sideB].listen(serverPort)
		a := s.peers[sideA].socket(clientPort)
		go func() {
			s.until("the first SYN", func() bool { return len(s.soFar()) > 0 })
			s.inject(sideB, s.words(sideB, serverPort, clientPort, "rst+ack"+numbersOf(0, s.lastOf(sideA).Next()+4)))
		}()
		s.check(unix.Connect(a, s.peers[sideB].at(serverPort)))
		b := s.accept(listener)
		s.say(a, b, 10)
		s.close(a, b)
	}},
	{name: "unread", about: "closed with data that nobody has read", script: func(s *stage) {
		a, b := s.open()
		_, err := unix.Write(a, make([]byte, 100))
		s.check(err)
		s.quiet()
		s.check(unix.Close(b))
		s.quiet()
		s.check(unix.Close(a))
		s.quiet()
	}},
	{name: "aborted", about: "the opener gives up with a reset", script: func(s *stage) {
		a, b := s.open()
		s.say(a, b, 10)
		s.say(b, a, 10)
		s.abort(a)
	}},
	{name: "told-after-close", about: "data for an end that has closed is answered with a reset", script: func(s *stage) {
		a, b := s.open()
		s.say(a, b, 10)
		s.check(unix.Close(a))
		s.readEnd(b)
		_, err := unix.Write(b, make([]byte, 50))
		s.check(err)
		s.quiet()
	}},
	{name: "reset-exact", about: "a forged reset with the next sequence number", script: func(s *stage) {
		a, b := s.open()
		s.say(a, b, 10)
		s.say(b, a, 20)
		s.quiet()
		s.inject(sideA, s.reset(s.lastOf(sideA).Next(), 0))
		s.quiet()
		_, err := unix.Write(a, make([]byte, 30))
		s.check(err)
		s.quiet()
	}},
	{name: "reset-in-window", about: "a forged reset some bytes ahead", script: injected(func(s *stage, a, _ pkttest.Segment) []byte { return s.reset(a.Next(), 100) })},
	{name: "reset-behind", about: "a forged reset with a number that is used up", script: injected(func(s *stage, a, _ pkttest.Segment) []byte { return s.reset(a.Next(), ^uint32(4)) })},
	{name: "reset-far", about: "a forged reset outside any window", script: injected(func(s *stage, a, _ pkttest.Segment) []byte { return s.reset(a.Next(), 1<<30) })},
	{name: "reset-far-behind", about: "a forged reset far behind", script: injected(func(s *stage, a, _ pkttest.Segment) []byte { return s.reset(a.Next(), ^uint32(1<<30)) })},
	{name: "reset-in-scaled-window", about: "a forged reset in a window that only scaling makes so large",
		script: injected(func(s *stage, a, _ pkttest.Segment) []byte { return s.reset(a.Next(), 200_000) })},
	{name: "reset-in-plain-window", about: "the same distance without scaling", sysctls: map[string]string{"net/ipv4/tcp_window_scaling": "0"},
		script: injected(func(s *stage, a, _ pkttest.Segment) []byte { return s.reset(a.Next(), 200_000) })},
	{name: "syn-in-established", about: "a forged SYN is answered with a challenge",
		script: injected(func(s *stage, a, _ pkttest.Segment) []byte { return s.numbered("syn", a.Next()+12345, 0) })},
	{name: "syn-ack-in-established", about: "a forged SYN+ACK is answered with a challenge",
		script: injected(func(s *stage, a, b pkttest.Segment) []byte { return s.numbered("syn+ack", a.Next()+12345, b.Next()) })},
	{name: "fin-without-ack", about: "a forged FIN without ACK",
		script: injected(func(s *stage, a, _ pkttest.Segment) []byte { return s.numbered("fin", a.Next(), 0) })},
	{name: "no-flags", about: "a forged segment without flags",
		script: injected(func(s *stage, a, _ pkttest.Segment) []byte { return s.numbered("none", a.Next(), 0) })},
	{name: "syn-and-fin", about: "a forged segment with SYN and FIN",
		script: injected(func(s *stage, a, _ pkttest.Segment) []byte { return s.numbered("syn+fin", a.Next(), 0) })},
	{name: "port-reuse", about: "the port is used again while the server waits in TIME-WAIT", script: func(s *stage) {
		listener := s.peers[sideB].listen(serverPort)
		for range 2 {
			a := s.peers[sideA].socket(clientPort)
			s.check(unix.Connect(a, s.peers[sideB].at(serverPort)))
			b, _, err := unix.Accept(listener)
			s.check(err)
			s.say(a, b, 10)
			s.close(b, a)
		}
	}},
	{name: "port-reuse-after-reset", about: "the port is used again right after a reset", script: func(s *stage) {
		listener := s.peers[sideB].listen(serverPort)
		for range 2 {
			a := s.peers[sideA].socket(clientPort)
			s.check(unix.Connect(a, s.peers[sideB].at(serverPort)))
			b := s.accept(listener)
			s.say(a, b, 10)
			s.abort(a)
			s.check(unix.Close(b))
		}
	}},
	{name: "keep-alive", about: "probes of an idle connection", script: func(s *stage) {
		a, b := s.open()
		s.say(a, b, 10)
		for option, value := range map[int]int{unix.TCP_KEEPIDLE: 1, unix.TCP_KEEPINTVL: 1} {
			s.check(unix.SetsockoptInt(a, unix.IPPROTO_TCP, option, value))
		}
		s.check(unix.SetsockoptInt(a, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1))
		before := s.sent(sideA, 0)
		s.until("two probes", func() bool { return s.sent(sideA, 0) >= before+2 })
		s.close(a, b)
	}},
	{name: "forgotten", about: "the opener has forgotten the connection and opens it anew", script: func(s *stage) {
		a, b := s.open()
		s.say(a, b, 10)
		s.quiet()
		s.vanish(a)
		a = s.peers[sideA].socket(clientPort)
		done := make(chan error, 1)
		go func() { done <- unix.Connect(a, s.peers[sideB].at(serverPort)) }()
		s.check(<-done)
		s.check(unix.Close(b))
		s.quiet()
		s.check(unix.Close(a))
		s.quiet()
	}},
	{name: "fast-open", about: "the SYN has data, which its answer acknowledges (RFC 7413)",
		sysctls: map[string]string{"net/ipv4/tcp_fastopen": "1543"}, script: func(s *stage) {
			listener := s.peers[sideB].listen(serverPort)
			a := s.peers[sideA].socket(clientPort)
			s.check(unix.Sendto(a, make([]byte, 40), unix.MSG_FASTOPEN, s.peers[sideB].at(serverPort)))
			b := s.accept(listener)
			s.read(b, 40)
			s.say(b, a, 20)
			s.quiet()
			s.close(a, b)
		}},
	{name: "zero-window", about: "the receiver has no room for a while", script: func(s *stage) {
		listener := s.peers[sideB].listen(serverPort)
		s.check(unix.SetsockoptInt(listener, unix.SOL_SOCKET, unix.SO_RCVBUF, 4608))
		a := s.peers[sideA].socket(clientPort)
		s.check(unix.Connect(a, s.peers[sideB].at(serverPort)))
		b := s.accept(listener)
		const bytes = 6000
		_, err := unix.Write(a, make([]byte, bytes))
		s.check(err)
		s.quiet()
		full := s.sent(sideA, 0)
		s.until("two probes of the window", func() bool { return s.sent(sideA, 0) >= full+2 })
		s.read(b, bytes)
		s.quiet()
		s.close(a, b)
	}},
}

func refusedConnection(s *stage) {
	a := s.peers[sideA].socket(clientPort)
	if err := unix.Connect(a, s.peers[sideB].at(serverPort)); err != unix.ECONNREFUSED {
		s.t.Fatalf("connect: %v", err)
	}
	s.quiet()
}

func simultaneousOpen(s *stage) {
	a, b := s.peers[sideA].socket(clientPort), s.peers[sideB].socket(serverPort)
	first := make(chan error, 1)
	go func() { first <- unix.Connect(a, s.peers[sideB].at(serverPort)) }()
	s.until("the first SYN", func() bool { return len(s.soFar()) > 0 })
	s.check(unix.Connect(b, s.peers[sideA].at(clientPort)))
	s.check(<-first)
	s.say(a, b, 10)
	s.say(b, a, 20)
	s.quiet()
	s.close(a, b)
}

// vanish ends a socket without a word.
func (s *stage) vanish(fd int) {
	s.t.Helper()
	s.check(unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, 1))
	s.check(unix.Close(fd))
}

// eitherVerdict gives a packet the first replayed that is not to arrive.
func eitherVerdict(a, b func(crossing) delivery) func(crossing) delivery {
	return func(p crossing) delivery {
		first, second := a(p), b(p)
		if first != arrives {
			return first
		}
		return second
	}
}

var recordTables = flag.Bool("record-tables", false, "make the tables of the recordings anew")

// TestRecordTables makes the tables that belong to the recordings.
func TestRecordTables(t *testing.T) {
	if !*recordTables {
		t.Skip("makes the tables anew; with -record-tables")
	}
	for _, c := range conversations {
		t.Run(c.name, func(t *testing.T) { writeTable(t, c) })
	}
}

// TestRecordConversations makes testdata/conversations. It takes real time: lost
// packets are sent again after a second.
func TestRecordConversations(t *testing.T) {
	if *recordConversations == "" {
		t.Skip("makes the recordings anew; with -record-conversations")
	}
	for _, c := range conversations {
		if *recordConversations != "all" && *recordConversations != c.name {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, c.v6)
			for _, p := range s.peers {
				inNamespace(t, p.ns, func() {
					for key, value := range c.sysctls {
						writeSysctl(t, key, value)
					}
				})
			}
			if c.plan != nil {
				s.mu.Lock()
				s.plan = c.plan
				s.mu.Unlock()
			}
			c.script(s)
			s.keep(c.name)
			writeTable(t, c)
		})
	}
}
