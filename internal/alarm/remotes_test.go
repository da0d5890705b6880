package alarm

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

var (
	knownRemote, stranger = netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.9")
	twoRemotes            = overlay.Edge{Segments: []overlay.Segment{{Name: "blue", VNI: 100, Remotes: []netip.Addr{knownRemote, netip.MustParseAddr("192.0.2.3")}}}}
)

func options(t *testing.T) Options {
	return Options{Log: slog.New(slog.DiscardHandler), Report: func(what string, err error) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}}
}

// told is a data path that tells of packets while a session is open.
type told struct {
	unknown  uint64
	packets  []datapath.PacketEvent
	sessions int
}

func (d *told) Drops() ([]datapath.Drop, error) {
	return []datapath.Drop{{Reason: unknownVNI, Packets: d.unknown}}, nil
}

func (d *told) StartMonitor(datapath.MonitorOptions) (MonitorSession, error) {
	d.sessions++
	return d, nil
}

func (d *told) Events(_ int, do func(datapath.PacketEvent)) (bool, error) {
	for _, p := range d.packets {
		do(p)
	}
	return false, nil
}

func (d *told) Stop() error {
	d.sessions--
	return nil
}

// A remote whose VNI is another is a problem that names it and the VNI.
func TestUnknownVNIs(t *testing.T) {
	u, now := NewUnknownVNIs(options(t)), time.Now()
	from := func(origin netip.Addr, vni uint32) datapath.PacketEvent {
		return datapath.PacketEvent{Reason: unknownVNI, Origin: origin, VNI: vni, Bytes: make([]byte, 64)}
	}
	d := &told{unknown: 5, packets: []datapath.PacketEvent{from(stranger, 7), from(knownRemote, 101), from(knownRemote, 101)}}
	look := func() []problem.Problem {
		now = now.Add(10 * time.Second)
		u.Look(d, d, now)
		return u.Problems(twoRemotes)
	}
	if look(); d.sessions != 0 {
		t.Error("packets are watched although none came since the start")
	}
	d.unknown += 3
	if look(); d.sessions != 1 {
		t.Error("packets are not watched although some came")
	}
	list := look()
	if len(list) != 2 || d.sessions != 0 {
		t.Fatalf("%d sessions, problems %v, want two VNIs", d.sessions, list)
	}
	for i, want := range []string{"192.0.2.2, a remote, sends VNI 101, which no segment here has at that UDP port (at least 2 packets in 1s,", "192.0.2.9, which is no remote here, sends VNI 7,"} {
		if list[i].Severity != problem.SeverityWarning || !strings.HasPrefix(list[i].Text, want) {
			t.Errorf("%v, want %q", list[i], want)
		}
	}
	for range 7 {
		list = look()
	}
	if len(list) != 0 {
		t.Errorf("a minute after the last packet: %v", list)
	}
	d.unknown++
	look()
	u.End()
	if d.sessions != 0 {
		t.Error("a session is left")
	}
}

type counted map[netip.Addr]datapath.TEPCounters

func (c counted) TEPs() (map[netip.Addr]datapath.TEPCounters, error) { return c, nil }

func TestSilent(t *testing.T) {
	s, now, c := NewSilent(options(t)), time.Now(), counted{}
	mute, idle := twoRemotes.Segments[0].Remotes[0], twoRemotes.Segments[0].Remotes[1]
	look := func(sent, received uint64) []problem.Problem {
		for _, r := range []netip.Addr{mute, idle} {
			c[r] = datapath.TEPCounters{Tx: datapath.Counters{Packets: sent}, Rx: datapath.Counters{Packets: received}}
		}
		s.Look(twoRemotes, c, now)
		return s.Problems(twoRemotes, func(r netip.Addr) bool { return r == idle }, now)
	}
	look(100, 5)
	now = now.Add(silentFor)
	if list := look(105, 5); len(list) != 0 {
		t.Errorf("after few packets: %v", list)
	}
	list := look(120, 5)
	if len(list) != 2 || list[0].Severity != problem.SeverityWarning || !strings.HasPrefix(list[0].Text, "remote 192.0.2.2 has sent nothing in 1m0s, and was sent 20 packets: ") ||
		list[1].Severity != problem.SeverityNote || !strings.Contains(list[1].Text, "it answers pings") {
		t.Errorf("%v, want a warning, and a note about the one that answers pings", list)
	}
	if list := look(130, 6); len(list) != 0 {
		t.Errorf("after an answer: %v", list)
	}
}
