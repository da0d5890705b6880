package alarm

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/problem"
)

const (
	unknownVNI = "unknown-vni"
	// unknownVNIRate bounds the packets that are looked at, a second and core.
	unknownVNIRate = 64
	// mostUnknownVNIs bounds what is kept: anybody may send.
	mostUnknownVNIs = 64
	// mostUnknownVNIProblems are named one by one.
	mostUnknownVNIProblems = 4
	// unknownVNIRemembered is how long a VNI stays a problem after its last packet.
	unknownVNIRemembered = time.Minute
)

// Monitors have programs tell of packets.
type Monitors interface {
	StartMonitor(o datapath.MonitorOptions) (MonitorSession, error)
}

// MonitorSession is told of packets until Stop.
type MonitorSession interface {
	Events(most int, do func(datapath.PacketEvent)) (more bool, err error)
	Stop() error
}

// strangeVNI is a VNI of no segment here, and who sends it.
type strangeVNI struct {
	Remote netip.Addr
	VNI    uint32
}

type seenVNI struct {
	packets     int
	first, last time.Time
}

// UnknownVNIs tells which remotes send a VNI that no segment here has: it looks at samples while the counter of such packets
// rises.
type UnknownVNIs struct {
	o       Options
	session MonitorSession // since the last look
	counted uint64         // by the data path, at the last look
	begun   bool

	mu   sync.Mutex
	seen map[strangeVNI]seenVNI
}

// NewUnknownVNIs has seen nothing.
func NewUnknownVNIs(o Options) *UnknownVNIs {
	return &UnknownVNIs{o: o, seen: make(map[strangeVNI]seenVNI)}
}

// Look takes what was told since the last look, and has programs tell more where such packets come. Names must not change
// meanwhile.
func (u *UnknownVNIs) Look(drops Drops, monitors Monitors, now time.Time) {
	u.read(now)
	u.End()
	all, err := drops.Drops()
	u.o.Report(readDrops, err)
	if err != nil {
		return
	}
	i := slices.IndexFunc(all, func(d datapath.Drop) bool { return d.Reason == unknownVNI })
	if i < 0 {
		return
	}
	before, begun := u.counted, u.begun
	u.counted, u.begun = all[i].Packets, true
	if !begun || u.counted == before || monitors == nil {
		return
	}
	const snaplen, ring = 256, 1 << 17
	u.session, err = monitors.StartMonitor(datapath.MonitorOptions{
		Drops: true, Snaplen: snaplen, Rate: unknownVNIRate, RingBytes: ring, Filter: datapath.MonitorFilter{Reasons: []string{unknownVNI}},
	})
	if err != nil { // others watch packets: they come first
		u.session = nil
	}
}

// End lets go of the data path.
func (u *UnknownVNIs) End() {
	if u.session != nil {
		u.o.Report(readDrops, u.session.Stop())
		u.session = nil
	}
}

func (u *UnknownVNIs) read(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for at, seen := range u.seen {
		if now.Sub(seen.last) > unknownVNIRemembered {
			delete(u.seen, at)
		}
	}
	if u.session == nil {
		return
	}
	_, err := u.session.Events(mostMonitored, func(e datapath.PacketEvent) {
		at := strangeVNI{e.Origin, e.VNI}
		seen, known := u.seen[at]
		if e.Reason != unknownVNI || !e.Origin.IsValid() || !known && len(u.seen) >= mostUnknownVNIs {
			return
		}
		seen.packets, seen.last = seen.packets+1, now.Add(-time.Duration(e.AgeNS))
		if !known {
			seen.first = seen.last
		}
		u.seen[at] = seen
	})
	u.o.Report(readDrops, err)
}

// mostMonitored bounds the packets of a look.
const mostMonitored = 8192

// Problems are the VNIs of the last minute, those of remotes of this edge first.
func (u *UnknownVNIs) Problems(config overlay.Edge) (list []problem.Problem) {
	u.mu.Lock()
	defer u.mu.Unlock()
	remotes := plan.Remotes(config)
	stranger := func(v strangeVNI) int {
		if slices.ContainsFunc(remotes, func(r netip.Addr) bool { return slices.Contains(config.Remote(r).Addrs, v.Remote) }) {
			return 0
		}
		return 1
	}
	all := make([]strangeVNI, 0, len(u.seen))
	for at := range u.seen {
		all = append(all, at)
	}
	slices.SortFunc(all, func(a, b strangeVNI) int {
		return cmp.Or(cmp.Compare(stranger(a), stranger(b)), a.Remote.Compare(b.Remote), cmp.Compare(a.VNI, b.VNI))
	})
	for _, at := range all[:min(len(all), mostUnknownVNIProblems)] {
		seen, who := u.seen[at], "which is no remote here,"
		if stranger(at) == 0 {
			who = "a remote,"
		}
		list = append(list, problem.Warning("%s, %s sends VNI %d, which no segment here has at that UDP port (at least %d packets in %s, dropped as %s): "+
			"give the segment the same VNI and UDP port on both edges", at.Remote, who, at.VNI, seen.packets, max(seen.last.Sub(seen.first), time.Second).Round(time.Second), unknownVNI))
	}
	if more := len(all) - mostUnknownVNIProblems; more > 0 {
		list = append(list, problem.Warning("%d more VNIs that no segment here has: see `selvage monitor --reason %s`", more, unknownVNI))
	}
	return list
}
