package measure

import (
	"testing"
	"time"
)

const ms = time.Millisecond

// track is a flow of a packet each millisecond, of which came says when, and if, each arrived.
func track(came func(seq int) []time.Duration, sent int) OutageFlow {
	t := outageTrack{interval: ms}
	type receipt struct {
		seq int
		at  time.Duration
	}
	var all []receipt
	for seq := range sent {
		for _, at := range came(seq) {
			all = append(all, receipt{seq, at})
		}
	}
	for at := time.Duration(0); at < time.Duration(2*sent)*ms; at += ms / 2 {
		for _, a := range all {
			if a.at == at {
				t.note(uint32(a.seq), time.Duration(a.seq)*ms, at)
			}
		}
	}
	return t.end(sent, time.Duration(sent-1)*ms)
}

func soon(seq int) []time.Duration { return []time.Duration{time.Duration(seq)*ms + ms/2} }

func TestOutageTrack(t *testing.T) {
	for name, c := range map[string]struct {
		came  func(seq int) []time.Duration
		want  OutageFlow   // without breaks
		fault OutageWindow // of all times
	}{
		"whole": {soon, OutageFlow{Received: 100}, OutageWindow{}},
		"a hole of ten": {func(seq int) []time.Duration {
			if seq >= 40 && seq < 50 {
				return nil
			}
			return soon(seq)
		}, OutageFlow{Received: 90}, OutageWindow{Lost: 10, Silence: 10 * ms, Broken: 40 * ms, Resumed: 50*ms + ms/2}},
		"held up, nothing lost": {func(seq int) []time.Duration {
			if seq >= 40 && seq < 60 {
				return []time.Duration{60 * ms}
			}
			return soon(seq)
		}, OutageFlow{Received: 100}, OutageWindow{Silence: 19*ms + ms/2, Broken: 40 * ms, Resumed: 60 * ms}},
		"late after a later one": {func(seq int) []time.Duration {
			if seq == 40 {
				return []time.Duration{41*ms + ms/2 + ms/2}
			}
			return soon(seq)
		}, OutageFlow{Received: 100, Late: 1}, OutageWindow{Silence: ms, Broken: 40 * ms, Resumed: 41*ms + ms/2}},
		"twice": {func(seq int) []time.Duration {
			if seq == 40 {
				return []time.Duration{40 * ms, 41 * ms}
			}
			return soon(seq)
		}, OutageFlow{Received: 100, Twice: 1}, OutageWindow{}},
		"ends": {func(seq int) []time.Duration {
			if seq >= 90 {
				return nil
			}
			return soon(seq)
		}, OutageFlow{Received: 90}, OutageWindow{Lost: 10, Silence: 8*ms + ms/2, Broken: 90 * ms, Open: true}},
		"never": {func(int) []time.Duration { return nil }, OutageFlow{}, OutageWindow{Lost: 100, Silence: 98 * ms, Broken: ms, Open: true}},
	} {
		f := track(c.came, 100)
		if f.Sent != 100 || f.Received != c.want.Received || f.Late != c.want.Late || f.Twice != c.want.Twice {
			t.Errorf("%s: %+v, want %+v", name, f, c.want)
		}
		if got := f.Within(0, time.Hour, ms); got != c.fault {
			t.Errorf("%s: %+v, want %+v", name, got, c.fault)
		}
		if before, after := f.Within(0, 30*ms, ms), f.Within(200*ms, time.Hour, ms); name != "never" && (before != (OutageWindow{}) || after.Lost > 0 && !after.Open) {
			t.Errorf("%s: before the fault %+v, after it %+v", name, before, after)
		}
	}
}

// A sender that is held up itself is no outage of the path.
func TestOutageTrackSlowSender(t *testing.T) {
	track := outageTrack{interval: ms}
	track.note(0, 0, ms)
	track.note(1, 500*ms, 501*ms)
	track.note(2, 501*ms, 520*ms)
	f := track.end(3, 501*ms)
	if w := f.Within(0, time.Hour, ms); w.Silence != 18*ms || len(f.Breaks) != 1 {
		t.Errorf("%+v of %+v, want the path's own 18 ms", w, f.Breaks)
	}
}

// A source that is held up with an answer waiting for it is none either, but where packets
// are missing all counts.
func TestOutageTrackHeldUp(t *testing.T) {
	track := outageTrack{interval: ms, paused: func(from, to time.Duration) time.Duration { return max(0, min(to, 500*ms)-max(from, 10*ms)) }}
	track.note(0, 9*ms, 10*ms)
	track.note(1, 10*ms, 502*ms)
	track.note(2, 503*ms, 504*ms)
	track.note(9, 510*ms, 511*ms)
	f := track.end(10, 511*ms)
	if w := f.Within(0, 503*ms, ms); w.Silence != ms || w.Lost != 0 {
		t.Errorf("%+v, want what was left of the pause", w)
	}
	if w := f.Within(503*ms, time.Hour, ms); w.Silence != 6*ms || w.Lost != 6 {
		t.Errorf("%+v, want the hole", w)
	}
}

// What fills a hole late is not lost.
func TestOutageTrackFound(t *testing.T) {
	track := outageTrack{interval: ms}
	track.note(0, 0, ms)
	track.note(5, 5*ms, 6*ms)
	track.note(2, 2*ms, 7*ms)
	track.note(6, 6*ms, 8*ms)
	if w := track.end(7, 6*ms).Within(0, time.Hour, ms); w.Lost != 3 {
		t.Errorf("%d lost, want 3 of the 4 that were missing", w.Lost)
	}
}

// Lines of the source may come in pieces.
func TestOutageStates(t *testing.T) {
	s := &outageStates{changed: make(chan struct{}, 1)}
	for _, piece := range []string{`{"at":5,"sil`, "ent\":2}\n{\"at\":6", `,"waiting":1}` + "\n"} {
		if n, err := s.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := s.last(); got != (outageLine{At: 6, Waiting: 1}) || s.broken() != nil {
		t.Errorf("%+v, %v", got, s.broken())
	}
	if _, err := s.Write([]byte("what?\n")); err != nil || s.broken() == nil {
		t.Errorf("nonsense is no error: %v, %v", err, s.broken())
	}
}
