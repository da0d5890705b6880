package bfd

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"
)

// sound is a packet of an up session, byte by byte as RFC 5880 section 4.1 draws it.
const sound = "20 c0 03 18" + "00000001" + "00000002" + "0000c350" + "000186a0" + "00000000"

func bytesOf(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(string(bytes.ReplaceAll([]byte(text), []byte(" "), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParse(t *testing.T) {
	got, why := parse(bytesOf(t, sound))
	want := packet{state: up, multiplier: 3, mine: 1, yours: 2, desiredTx: 50 * time.Millisecond, requiredRx: 100 * time.Millisecond}
	if why != "" || got != want {
		t.Errorf("got %+v %q, want %+v", got, why, want)
	}
	if wire := want.marshal(); !bytes.Equal(wire, bytesOf(t, sound)) {
		t.Errorf("sent %x, want %s", wire, sound)
	}
	got, why = parse(bytesOf(t, "21 72 01 18"+"00000001"+"00000000"+"000f4240"+"00000000"+"00000000"))
	want = packet{state: down, diag: detectionTime, poll: true, final: true, demand: true, multiplier: 1, mine: 1, desiredTx: time.Second}
	if why != "" || got != want {
		t.Errorf("got %+v %q, want %+v", got, why, want)
	}
}

func TestReasonsAreOnce(t *testing.T) {
	seen := map[Reason]bool{}
	for _, r := range Reasons {
		if seen[r.Reason] || r.Text == "" {
			t.Errorf("%+v comes twice or says nothing", r)
		}
		seen[r.Reason] = true
	}
}

func TestParseRefuses(t *testing.T) {
	change := func(at int, b ...byte) []byte {
		wire := bytesOf(t, sound)
		copy(wire[at:], b)
		return wire
	}
	whole := bytesOf(t, sound)
	for _, c := range []struct {
		name string
		wire []byte
		want Reason
	}{
		{"nothing", nil, Truncated},
		{"one byte short", whole[:23], Truncated},
		{"length beyond the packet", change(3, 25), Truncated},
		{"version 0", change(0, 0), BadVersion},
		{"version 2", change(0, 0x40), BadVersion},
		{"length below the header", change(3, 23), BadLength},
		{"length below that of authentication", change(1, 0xc4), BadLength},
		{"multiplier", change(2, 0), BadMultiplier},
		{"multipoint", change(1, 0xc1), Multipoint},
		{"sender's discriminator", change(4, 0, 0, 0, 0), NoDiscriminator},
		{"up without ours", change(8, 0, 0, 0, 0), NotStarting},
		{"init without ours", change(1, 0x80, 3, 24, 0, 0, 0, 1, 0, 0, 0, 0), NotStarting},
		{"authentication", append(change(1, 0xc4, 3, 26), 1, 2), Authenticated},
	} {
		if _, why := parse(c.wire); why != c.want {
			t.Errorf("%s: dropped for %q, want %q", c.name, why, c.want)
		}
	}
	if _, why := parse(append(whole, 1, 2, 3)); why != "" { // UDP padding is no fault
		t.Errorf("a packet with bytes behind it is dropped for %q", why)
	}
}

// FuzzPacket: what parse lets through obeys section 6.8.6 and survives being sent
// again; the session that gets it stays in a state of its own, with bounded timers.
func FuzzPacket(f *testing.F) {
	f.Add([]byte{})
	whole, err := hex.DecodeString("20c0031800000001000000020000c350000186a000000000")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, wire []byte) {
		p, why := parse(wire)
		if why != "" {
			return
		}
		if p.multiplier == 0 || p.mine == 0 || p.yours == 0 && p.state > down {
			t.Fatalf("%+v was let through", p)
		}
		if again, why := parse(p.marshal()); why != "" || again != p {
			t.Errorf("%+v became %+v %q", p, again, why)
		}
		now := time.Unix(1000, 0)
		s := newSession(now, 7, Timers{50 * time.Millisecond, 3}, func() float64 { return 0.5 })
		for range 3 {
			s.receive(now, p)
			s.packet(now, false)
			if wait := s.detection(); wait < 150*time.Millisecond && p.multiplier >= 3 || s.deadline.Sub(now) != wait {
				t.Errorf("waits %s for the next packet after %+v", wait, p)
			}
			if due := s.due(); !due.IsZero() && due.Sub(now) < 37*time.Millisecond {
				t.Errorf("sends again after %s, after %+v", due.Sub(now), p)
			}
		}
	})
}
