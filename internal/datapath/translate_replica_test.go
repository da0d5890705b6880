package datapath

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/overlay"
)

var sameAddrs = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
}

// natRecord is an established TCP connection of a policy, the i-th one of a source behind
// the first remote.
func natRecord(policy string, i int) NATRecord {
	pool := map[string]string{"web": webFirst4, "two": two4, "uplink/up": uplink4, "none": two4}
	return NATRecord{
		Router: NameTag("main"), Policy: NameTag(policy), Proto: 6, Bits: uint32(bpfCtBitsCT_OUT) | 2 | 4 | 8 | 16,
		Inside:  netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 1, 11}), uint16(2000+i%50000)),
		Outside: netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, 113, byte(5 + i/50000)}), 443),
		Egress:  netip.AddrPortFrom(addr(pool[policy]), uint16(2000+i%50000)),
		Via:     underIPv4.remotes[0], Scale: [2]uint8{7, 255}, NextSeq: [2]uint32{1, 2},
		AgeNS: uint64(time.Minute), IdleNS: uint64(time.Second), Counters: [2]Counters{{1, 2}, {3, 4}},
	}
}

func (w *world) putNATSessions(t testing.TB, records ...NATRecord) (taken, conflicts int) {
	t.Helper()
	taken, conflicts, err := w.dp.NATSessions.PutNATRecords(records)
	must(t, err)
	return taken, conflicts
}

func (w *world) natSessions(t testing.TB) (list []NATSession) {
	t.Helper()
	must(t, w.dp.NATSessions.EachNATSession(func(b *NATSession) bool { list = append(list, *b); return true }))
	return list
}

func (w *world) records(t testing.TB) (list []NATRecord) {
	t.Helper()
	must(t, w.dp.NATSessions.EachNATRecord(func(r *NATRecord) bool { list = append(list, *r); return true }))
	return list
}

// The binary form says all, and what no gateway writes is refused.
func TestRecordBinary(t *testing.T) {
	mapping := natRecord("web", 1)
	mapping.Flags, mapping.Outside = uint16(bpfNatSessionFlagsNAT_SESSION_MAPPING), netip.AddrPort{}
	six := natRecord("web", 2)
	six.Inside, six.Outside, six.Egress = netip.MustParseAddrPort("[2001:db8::1]:1"), netip.MustParseAddrPort("[2001:db8::2]:2"), netip.MustParseAddrPort("[2001:db8::3]:3")
	six.Via, six.EchoDir, six.Proto = netip.Addr{}, 2, 58
	var b []byte
	all := []NATRecord{natRecord("web", 0), mapping, six}
	for _, r := range all {
		b, _ = r.AppendBinary(b)
	}
	if len(b) != len(all)*NATRecordSize {
		t.Fatalf("%d records of %d bytes have %d bytes", len(all), NATRecordSize, len(b))
	}
	for i, want := range all {
		var got NATRecord
		if err := got.UnmarshalBinary(b[i*NATRecordSize:]); err != nil {
			t.Errorf("record %d: %v", i, err)
		}
		if d := cmp.Diff(want, got, sameAddrs); d != "" {
			t.Error(d)
		}
	}
	for what, change := range map[string]func(b []byte) []byte{
		"cut":                   func(b []byte) []byte { return b[:NATRecordSize-1] },
		"asker":                 func(b []byte) []byte { b[9] = 3; return b },
		"replica":               func(b []byte) []byte { b[11] = 1; return b },
		"bits":                  func(b []byte) []byte { b[12] = 1; return b },
		"no source":             func(b []byte) []byte { clear(b[16:32]); return b },
		"no peer":               func(b []byte) []byte { clear(b[32:48]); return b },
		"peer of a mapping":     func(b []byte) []byte { b[11] = byte(bpfNatSessionFlagsNAT_SESSION_MAPPING); return b },
		"peer of IPv6":          func(b []byte) []byte { b[32] = 0x20; return b },
		"egress of IPv6":        func(b []byte) []byte { b[48] = 0x20; return b },
		"egress of no address":  func(b []byte) []byte { clear(b[48:64]); return b },
		"nothing but a mapping": func(b []byte) []byte { clear(b); b[11] = 8; return b },
	} {
		r := natRecord("web", 0)
		b, _ := r.AppendBinary(nil)
		if err := r.UnmarshalBinary(change(b)); err == nil {
			t.Errorf("%s: taken", what)
		}
	}
}

// A replica is what the other gateway has, with this one's numbers and clock.
func TestPutNATSessions(t *testing.T) {
	w := natWorld(t, ways()[0])
	r := natRecord("web", 0)
	stranger, unrouted := natRecord("none", 1), natRecord("web", 2)
	stranger.Egress = r.Egress
	unrouted.Router = NameTag("none")
	if taken, conflicts := w.putNATSessions(t, r, stranger, unrouted); taken != 1 || conflicts != 0 {
		t.Errorf("%d taken, %d conflicts", taken, conflicts)
	}
	w.checkReturns(t)
	list := w.natSessions(t)
	if len(list) != 1 {
		t.Fatalf("sessions %+v", list)
	}
	b := list[0]
	if b.AgeNS+1<<bornShift <= r.AgeNS || b.IdleNS < r.IdleNS || b.IdleNS > r.IdleNS+uint64(time.Minute) || b.LeftNS != uint64(overlay.DefaultNATTimeouts.Established)-b.IdleNS {
		t.Errorf("age %d, idle %d, left %d", b.AgeNS, b.IdleNS, b.LeftNS)
	}
	b.AgeNS, b.IdleNS, b.LeftNS = 0, 0, 0
	want := NATSession{
		Connection: Connection{Proto: 6, State: "established", Answered: true, Orig: r.Counters[0], Reply: r.Counters[1]},
		Policy:     "web", Router: "main", Inside: r.Inside, Outside: r.Outside, Egress: r.Egress, Via: r.Via, Replica: true,
	}
	if d := cmp.Diff(want, b, sameAddrs); d != "" {
		t.Error(d)
	}
	got := w.records(t)[0]
	got.AgeNS, got.IdleNS, r.Replica = r.AgeNS, r.IdleNS, true
	if d := cmp.Diff(r, got, sameAddrs); d != "" {
		t.Error(d)
	}
}

// own makes all sessions this gateway's own, seen so long ago.
func (w *world) own(t testing.TB, idle time.Duration) {
	t.Helper()
	now, err := kernel.Host().Clock.Monotonic()
	must(t, err)
	changeEach[bpfCtKey](t, w.dp.NATSessions.maps.NatSessions, func(b *bpfNatSession) {
		b.Flags &^= uint32(bpfNatSessionFlagsNAT_SESSION_REPLICA)
		b.Ct.SeenNs = now - uint64(idle)
	})
}

func TestPutNATSessionsConflicts(t *testing.T) {
	w := natWorld(t, ways()[0])
	r := natRecord("web", 0)
	moved, thief := r, natRecord("web", 1)
	moved.Egress = netip.AddrPortFrom(addr(webSecond4), 5555)
	thief.Egress, thief.Outside = r.Egress, r.Outside
	for _, c := range []struct {
		what             string
		before           func()
		put              NATRecord
		taken, conflicts int
		want             netip.AddrPort
		replica          bool
	}{
		{"the same again", func() {}, r, 1, 0, r.Egress, true},
		{"another one's port", func() {}, thief, 0, 1, r.Egress, true},
		{"a replica that has another port now", func() {}, moved, 1, 0, moved.Egress, true},
		{"and back", func() {}, r, 1, 0, r.Egress, true},
		{"another port than ours", func() { w.own(t, 0) }, moved, 0, 1, r.Egress, false},
		{"ours, seen there later", func() { w.own(t, time.Minute) }, r, 1, 0, r.Egress, false},
	} {
		w.forgetNATSessions(t)
		w.putNATSessions(t, r)
		c.before()
		if taken, conflicts := w.putNATSessions(t, c.put); taken != c.taken || conflicts != c.conflicts {
			t.Errorf("%s: %d taken, %d conflicts", c.what, taken, conflicts)
		}
		list := w.natSessions(t)
		if len(list) != 1 || list[0].Egress != c.want || list[0].Replica != c.replica {
			t.Errorf("%s: sessions %+v", c.what, list)
		}
		w.checkReturns(t)
		if len(list) == 1 && list[0].IdleNS > uint64(20*time.Second) {
			t.Errorf("%s: idle for %s", c.what, time.Duration(list[0].IdleNS))
		}
	}
}
