package datapath

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// HostEvent is a host that came to a port, or an address that one there said it has. The
// zero one stands for those that could not be told: Hosts lists all.
type HostEvent struct {
	Segment, Port string
	MAC           overlay.MAC
	Addr          netip.Addr // unset: of the MAC address itself
	ND            rib.NDFlags
	WasRemote     bool       // the MAC address was behind a remote
	Remote        netip.Addr // that one
	// Frozen is for how long the MAC address is frozen at Port or Remote, as it moved too
	// often; Other is the port or remote where it was seen too.
	Frozen time.Duration
	Other  string
	// Loop is a probe of this edge that came back; nothing else is set.
	Loop Loop
	// Reported is the remote to which a path has a new entry of PathReports; nothing else is set.
	Reported netip.Addr
}

// hostEventNames are the names of numbers in arrivals.
type hostEventNames struct {
	segments, ports map[uint32]string
	remotes         map[uint32]netip.Addr
	loopTokens      map[uint32]uint64
	made            map[uint32]made
}

// publishNames has FollowHostEvents use the names that are assigned.
func (ev *HostEvents) publishNames() {
	ev.assignLoopTokens()
	n := &hostEventNames{ev.numbers.names.segments, ev.numbers.names.ports, make(map[uint32]netip.Addr, len(ev.numbers.names.pathIDs)), ev.loopTokens, map[uint32]made{}}
	for id := range ev.numbers.names.ports {
		n.made[id] = made{ev.numbers.vports[id].Ifindex, ev.numbers.vports[id].Vlan}
	}
	for _, id := range ev.numbers.names.pathIDs {
		_, n.remotes[id] = ev.numbers.vportName(id)
	}
	ev.publishedNames.Store(n)
}

const (
	// mostHostEvents bounds what is told at a time.
	mostHostEvents = 1024
	// lossInterval is how often at most it is told that some could not be told.
	lossInterval = time.Second
	// idleLossInterval is how often it is looked whether some could not be told while none come.
	idleLossInterval = 10 * time.Second
)

// FollowHostEvents calls do with arrivals as they come, until ctx ends. It may run beside
// everything but Close and Remove, once.
func (ev *HostEvents) FollowHostEvents(ctx context.Context, do func([]HostEvent)) error {
	f := hostEventReader{events: ev}
	if err := f.open(&ev.prog.kernel, ev.maps.HostEvents); err != nil {
		return fmt.Errorf("follow arrivals: %w", err)
	}
	reader := f.reader
	defer reader.Close()
	defer context.AfterFunc(ctx, func() { reader.Close() })()
	var err error
	if f.lost, err = ev.traffic.event(bpfEventEVENT_HOST_EVENT_LOST); err != nil {
		return err
	}
	for {
		list, err := f.next()
		if errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("follow arrivals: %w", err)
		}
		if len(list) > 0 {
			do(list)
		}
	}
}

// hostEventReader reads the ring of arrivals.
type hostEventReader struct {
	ring[bpfHostEvent]
	events  *HostEvents
	lost    uint64    // arrivals that were lost when that was told last
	namesAt time.Time // when
	busy    bool      // there were arrivals a moment ago
}

// next waits for arrivals, a while.
func (f *hostEventReader) next() ([]HostEvent, error) {
	var list []HostEvent
	wait := idleLossInterval // a ring that nobody writes to overflows no more
	if f.busy {
		wait = lossInterval
	}
	f.busy = false
	f.reader.SetDeadline(time.Now().Add(wait))
	for len(list) < mostHostEvents {
		event, err := f.ring.next()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			return nil, err
		}
		f.reader.SetDeadline(time.Unix(1, 0)) // what else is there
		list = f.events.publishedNames.Load().add(list, event)
		f.busy = true
	}
	return f.addLost(list)
}

// add appends an arrival, unless its segment or port went meanwhile.
func (n *hostEventNames) add(list []HostEvent, a *bpfHostEvent) []HostEvent {
	if n == nil {
		return list
	}
	if remote := n.remotes[a.Vport]; a.PathReport != 0 && remote.IsValid() {
		return append(list, HostEvent{Reported: remote})
	}
	if n.segments[a.Segment] == "" {
		return list
	}
	if a.LoopVport != 0 {
		if l := n.loop(a); l != nil {
			list = append(list, HostEvent{Loop: *l})
		}
		return list
	}
	if a.FrozenS > 0 {
		return append(list, HostEvent{
			Segment: n.segments[a.Segment], MAC: a.Mac, Port: n.ports[a.Vport], Remote: n.remotes[a.Vport],
			Frozen: time.Duration(a.FrozenS) * time.Second, Other: n.place(uint32(a.FromVport)),
		})
	}
	if n.ports[a.Vport] == "" {
		return list
	}
	hostEvent := HostEvent{Segment: n.segments[a.Segment], Port: n.ports[a.Vport], MAC: a.Mac}
	if a.Addr.W != [4]uint32{} {
		hostEvent.Addr = addrOf(a.Addr.W)
		hostEvent.ND = ndFlags(hostEvent.Addr, bpfNeighbourFlags(a.Flags))
	}
	hostEvent.Remote, hostEvent.WasRemote = n.remotes[uint32(a.FromVport)], a.FromVport != 0
	return append(list, hostEvent)
}

// place is a port's name or a remote's address.
func (n *hostEventNames) place(id uint32) string {
	if remote, ok := n.remotes[id]; ok {
		return remote.String()
	}
	return n.ports[id]
}

func (f *hostEventReader) addLost(list []HostEvent) ([]HostEvent, error) {
	lost, err := f.events.traffic.event(bpfEventEVENT_HOST_EVENT_LOST)
	if err != nil || lost == f.lost || time.Since(f.namesAt) < lossInterval {
		return list, err
	}
	f.lost, f.namesAt = lost, time.Now()
	return append(list, HostEvent{}), nil
}
