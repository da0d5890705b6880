package datapath

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/test/pkttest"
)

// A UDP checksum that comes out as zero is written as all ones (RFC 768): zero says that there is none.
func TestNATZeroChecksum(t *testing.T) {
	natWays(t, func(t *testing.T, w *world) {
		for _, v6 := range []bool{false, true} {
			n := w.talk(t)
			steps := natFamily(v6, natAsk, natAnswer)
			n.follow(steps...)
			for _, s := range steps {
				name, words, _ := natStepBy(s)
				_, want := natBegin(s[len(name)+len(words)+len(": ")+len(" => "):])
				from := natHostOf(name)
				in := natFrame(from.src, from.dst, words)
				received := natFrame(from.src, from.dst, want)
				at := etherLen + 20 + 6
				if v6 {
					at += 20
				}
				// The payload's first two bytes make the translated packet's sum zero.
				sum, word := binary.BigEndian.Uint16(received[at:]), binary.BigEndian.Uint16(received[at+2:])
				total := uint32(sum) + uint32(word)
				for total > 0xffff {
					total = total&0xffff + total>>16
				}
				in = withWord(in, at, uint16(total))
				why, r := w.natOffer(t, from, in)
				_, out := w.natArrived(t, r)
				if why != "" || out[at] != 0xff || out[at+1] != 0xff || len(pkttest.Dissect(out).Faults) > 0 {
					pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: in}, {Name: "out", Bytes: out}}, "%s: %s", s, why)
				}
			}
		}
	})
}

// withWord is a UDP frame with another first word of its payload, and its checksum.
func withWord(frame []byte, sumAt int, word uint16) []byte {
	b := append([]byte(nil), frame...)
	at, seed := pseudoSum(b)
	binary.BigEndian.PutUint16(b[sumAt+2:], word)
	binary.BigEndian.PutUint16(b[at:], 0)
	binary.BigEndian.PutUint16(b[at:], ^pkttest.Sum(b[sumAt-6:], uint32(seed)))
	return b
}

// An uplink that carries less than the segments lowers the MSS both ways, translated or not, unless a segment says that it does not clamp.
func TestMSSClampOfUplink(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		clamp     bool
		four, six int
	}{{true, 1360, 1340}, {false, 9000, 9000}} {
		for _, translated := range []bool{true, false} {
			w := natWorld(t, ways()[0], func(_ *Config, tables *fib.Tables) {
				for i := range tables.Segments {
					if s := &tables.Segments[i]; s.Name != "up" {
						s.ClampMSS = c.clamp
					}
				}
				if !translated {
					tables.Egress, tables.EgressRules = nil, nil
				}
			})
			w.tables.Ports[len(w.tables.Ports)-1].MTU = 1400 // the uplink
			w.apply(t)
			inside4, inside6 := "10.0.1.10:80", "[2001:db8:1::a]:80"
			outside4, outside6 := inside4, inside6
			if translated {
				outside4, outside6 = "198.51.100.1:$p", "[2001:db8:ff::1]:$q"
			}
			w.talk(t).follow(
				fmt.Sprintf("alice: tcp %s > 203.0.113.5:80 syn seq 9 mss 9000 => isp: tcp %s > 203.0.113.5:80 syn seq 9 mss %d", inside4, outside4, c.four),
				fmt.Sprintf("isp: tcp 203.0.113.5:80 > %s syn+ack seq 50 acks 10 mss 9000 => alice: tcp 203.0.113.5:80 > %s syn+ack seq 50 acks 10 mss %d", outside4, inside4, c.four),
				fmt.Sprintf("alice: tcp %s > [2001:db8:77::5]:80 syn seq 9 mss 9000 => isp: tcp %s > [2001:db8:77::5]:80 syn seq 9 mss %d", inside6, outside6, c.six),
			)
		}
	}
}
