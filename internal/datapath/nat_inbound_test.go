package datapath

import (
	"encoding/binary"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/policy"
)

// natInboundCases are connections that come in by an uplink without a translation. Their replies
// leave as they are, by the first packet, like those of any NAT: alice would be masqueraded
// otherwise, dave and bob translated by their policies.
var natInboundCases = []natCase{
	{name: "TCP", steps: []string{
		"isp: tcp 203.0.113.5:4000 > 10.0.1.10:80 syn seq 9 => alice: tcp 203.0.113.5:4000 > 10.0.1.10:80 syn seq 9",
		"alice: tcp 10.0.1.10:80 > 203.0.113.5:4000 syn+ack seq 99 acks 10 => isp: tcp 10.0.1.10:80 > 203.0.113.5:4000 syn+ack seq 99 acks 10",
		"isp: tcp 203.0.113.5:4000 > 10.0.1.10:80 ack seq 10 acks 100 20 => alice: tcp 203.0.113.5:4000 > 10.0.1.10:80 ack seq 10 acks 100 20",
		"alice: tcp 10.0.1.10:80 > 203.0.113.5:4000 ack seq 100 acks 30 7 => isp: tcp 10.0.1.10:80 > 203.0.113.5:4000 ack seq 100 acks 30 7",
		"wait 1h",
		"alice: tcp 10.0.1.10:80 > 203.0.113.5:4000 ack seq 107 acks 30 7 => isp: tcp 10.0.1.10:80 > 203.0.113.5:4000 ack seq 107 acks 30 7",
		"alice: tcp 10.0.1.10:80 > 203.0.113.5:4000 fin+ack seq 114 acks 30 => isp: tcp 10.0.1.10:80 > 203.0.113.5:4000 fin+ack seq 114 acks 30",
		"isp: tcp 203.0.113.5:4000 > 10.0.1.10:80 fin+ack seq 30 acks 115 => alice: tcp 203.0.113.5:4000 > 10.0.1.10:80 fin+ack seq 30 acks 115",
		"alice: tcp 10.0.1.10:80 > 203.0.113.5:4000 ack seq 115 acks 31 => isp: tcp 10.0.1.10:80 > 203.0.113.5:4000 ack seq 115 acks 31",
	}},
	{name: "UDP", steps: []string{
		"isp: udp 203.0.113.5:4000 > 10.0.1.10:53 30 => alice: udp 203.0.113.5:4000 > 10.0.1.10:53 30",
		"alice: udp 10.0.1.10:53 > 203.0.113.5:4000 40 => isp: udp 10.0.1.10:53 > 203.0.113.5:4000 40",
		"alice: udp 10.0.1.10:53 > 203.0.113.5:4000 41 => isp: udp 10.0.1.10:53 > 203.0.113.5:4000 41",
		"isp: udp 203.0.113.5:4000 > 10.0.1.10:53 30 => alice: udp 203.0.113.5:4000 > 10.0.1.10:53 30",
		"wait 4m",
		"alice: udp 10.0.1.10:53 > 203.0.113.5:4000 41 => isp: udp 10.0.1.10:53 > 203.0.113.5:4000 41",
		"alice: udp 10.0.1.10:4100 > 203.0.113.5:4000 41 => isp: udp 198.51.100.1:4100 > 203.0.113.5:4000 41",
	}},
	{name: "ping", steps: []string{
		"isp: icmp 203.0.113.5 > 10.0.1.10 8/0 id 4107 30 => alice: icmp 203.0.113.5 > 10.0.1.10 8/0 id 4107 30",
		"alice: icmp 10.0.1.10 > 203.0.113.5 0/0 id 4107 30 => isp: icmp 10.0.1.10 > 203.0.113.5 0/0 id 4107 30",
		"alice: icmp 10.0.1.10 > 203.0.113.5 0/0 id 4108 30 => drop nat-unsupported",
	}},
	{name: "errors about it", steps: []string{
		"isp: udp 203.0.113.5:4000 > 10.0.1.10:53 30 => alice: udp 203.0.113.5:4000 > 10.0.1.10:53 30",
		"alice: error 3/3 10.0.1.10 > 203.0.113.5 quoting 500 udp 203.0.113.5:4000 > 10.0.1.10:53 30 => " +
			"isp: error 3/3 10.0.1.10 > 203.0.113.5 quoting 500 udp 203.0.113.5:4000 > 10.0.1.10:53 30",
		"alice: udp 10.0.1.10:53 > 203.0.113.5:4000 40 => isp: udp 10.0.1.10:53 > 203.0.113.5:4000 40",
		"alice: error 3/3 10.0.1.10 > 203.0.113.5 quoting 500 udp 203.0.113.5:4000 > 10.0.1.10:53 30 => " +
			"isp: error 3/3 10.0.1.10 > 203.0.113.5 quoting 500 udp 203.0.113.5:4000 > 10.0.1.10:53 30",
		"isp: error 3/3 203.0.113.5 > 10.0.1.10 quoting 500 udp 10.0.1.10:53 > 203.0.113.5:4000 40 => " +
			"alice: error 3/3 203.0.113.5 > 10.0.1.10 quoting 500 udp 10.0.1.10:53 > 203.0.113.5:4000 40",
	}},
	{name: "fragments", steps: []string{
		"isp: piece 0 of 64 id 7 udp 203.0.113.5:4000 > 10.0.1.10:53 150 => alice: piece 0 of 64 id 7 udp 203.0.113.5:4000 > 10.0.1.10:53 150",
		"isp: piece 1 of 64 id 7 udp 203.0.113.5:4000 > 10.0.1.10:53 150 => alice: piece 1 of 64 id 7 udp 203.0.113.5:4000 > 10.0.1.10:53 150",
		"alice: piece 0 of 64 id 8 udp 10.0.1.10:53 > 203.0.113.5:4000 150 => isp: piece 0 of 64 id 8 udp 10.0.1.10:53 > 203.0.113.5:4000 150",
		"alice: piece 1 of 64 id 8 udp 10.0.1.10:53 > 203.0.113.5:4000 150 => isp: piece 1 of 64 id 8 udp 10.0.1.10:53 > 203.0.113.5:4000 150",
	}},
	{name: "answers of nobody's question", steps: []string{
		"alice: tcp 10.0.1.10:80 > 203.0.113.5:4000 syn+ack seq 99 acks 10 => drop out-of-state",
		"bob: tcp 10.0.1.11:80 > 203.0.113.5:4000 syn+ack seq 99 acks 10 => drop out-of-state",
		"isp: tcp 203.0.113.5:4000 > 10.0.1.10:80 syn+ack seq 9 acks 10 => alice: tcp 203.0.113.5:4000 > 10.0.1.10:80 syn+ack seq 9 acks 10",
		"alice: tcp 10.0.1.10:80 > 203.0.113.5:4000 syn seq 9 => isp: tcp 198.51.100.1:$p > 203.0.113.5:4000 syn seq 9",
	}},
	{name: "a connection from inside stays translated", steps: []string{
		"alice: udp 10.0.1.10:4100 > 203.0.113.5:53 30 => isp: udp 198.51.100.1:4100 > 203.0.113.5:53 30",
		"isp: udp 203.0.113.5:53 > 10.0.1.10:4100 40 => alice: udp 203.0.113.5:53 > 10.0.1.10:4100 40",
		"alice: udp 10.0.1.10:4100 > 203.0.113.5:53 31 => isp: udp 198.51.100.1:4100 > 203.0.113.5:53 31",
		"isp: udp 203.0.113.5:53 > 198.51.100.1:4100 40 => alice: udp 203.0.113.5:53 > 10.0.1.10:4100 40",
	}},
	{name: "a SYN from inside is one's own", steps: []string{
		"isp: tcp 203.0.113.5:4000 > 10.0.1.10:4100 syn seq 9 => alice: tcp 203.0.113.5:4000 > 10.0.1.10:4100 syn seq 9",
		"alice: tcp 10.0.1.10:4100 > 203.0.113.5:4000 syn seq 99 => isp: tcp 198.51.100.1:4100 > 203.0.113.5:4000 syn seq 99",
	}},
}

// An uplink that requires translation lets no reply out untranslated.
func TestNATInboundWhereRequired(t *testing.T) {
	w := natWorld(t, ways()[0], func(_ *Config, tables *fib.Tables) { tables.Translated = []string{"up"} })
	w.natBoth(t,
		"isp: tcp 203.0.113.5:4000 > 10.0.1.10:80 syn seq 9 => alice: tcp 203.0.113.5:4000 > 10.0.1.10:80 syn seq 9",
		"alice: tcp 10.0.1.10:80 > 203.0.113.5:4000 syn+ack seq 99 acks 10 => drop out-of-state,no-translation",
	)
}

// offerMany offers a packet to the program of ports so many times, each with another number.
func (w *world) offerMany(t *testing.T, dev string, frame []byte, times int, number func(frame []byte, n int)) {
	t.Helper()
	w.do(t, func() {
		for n := range times {
			number(frame, n)
			if _, err := runProgram(w.dp.prog.objs.FromPort, w.dev[dev].Index, packet{bytes: frame}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// What strangers send to one host takes the notes of no other, which answers when it can; what is forgotten is counted.
func TestNATInboundFloodLeavesOtherHosts(t *testing.T) {
	t.Parallel()
	w := natWorld(t, ways()[0])
	n := w.talk(t)
	n.follow("isp: udp 203.0.113.5:4000 > 10.0.1.10:53 30 => alice: udp 203.0.113.5:4000 > 10.0.1.10:53 30")
	isp := natHostOf("isp")
	_, events := w.counted(t, func() {
		w.offerMany(t, "s0", natFrame(isp.src, isp.dst, "udp 203.0.113.6:4000 > 10.0.1.12:53 30"), 40_000, func(frame []byte, n int) {
			binary.BigEndian.PutUint16(frame[etherLen+ipv4Len:], uint16(n))
		})
	})
	n.follow("alice: udp 10.0.1.10:53 > 203.0.113.5:4000 40 => isp: udp 10.0.1.10:53 > 203.0.113.5:4000 40",
		"carol: udp 10.0.1.12:53 > 203.0.113.6:39999 40 => isp: udp 10.0.1.12:53 > 203.0.113.6:39999 40",
		"carol: udp 10.0.1.12:53 > 203.0.113.6:1 40 => isp: udp 198.51.100.1:$p > 203.0.113.6:1 40")
	if events["nat-inbound-evicted"] < 30_000 {
		t.Errorf("events %v", events)
	}
}

// A packet that the firewall refuses takes no other packet's note with it.
func TestNATInboundNoteOutlastsRefusedPackets(t *testing.T) {
	for _, strict := range []bool{true, false} {
		fw := wall(ruleOf(1, "allow in svc tcp/80"))
		fw.Strict = strict
		w := natWorld(t, ways()[0], func(c *Config, tables *fib.Tables) {
			guardAt(t, c, tables, fw, policy.Place{Name: "p0", Port: "p0", Segment: "blue"})
		})
		w.natBoth(t,
			"isp: tcp 203.0.113.5:4000 > 10.0.1.10:80 syn seq 9 => alice: tcp 203.0.113.5:4000 > 10.0.1.10:80 syn seq 9",
			"isp: tcp 203.0.113.5:4000 > 10.0.1.10:80 syn+fin seq 9 => drop tcp-flags",
			"isp: tcp 203.0.113.5:4000 > 10.0.1.10:80 none seq 9 => drop tcp-flags",
			"alice: tcp 10.0.1.10:80 > 203.0.113.5:4000 syn+ack seq 99 acks 10 => isp: tcp 10.0.1.10:80 > 203.0.113.5:4000 syn+ack seq 99 acks 10",
		)
	}
}
