package datapath

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"
	"unsafe"

	"github.com/cilium/ebpf/ringbuf"

	"github.com/selvage/selvage/internal/overlay"
)

// Arrival is a host that came to a port, or an address that one there said it has. The
// zero one stands for those that could not be told: Hosts lists all.
type Arrival struct {
	Segment, Port string
	MAC           overlay.MAC
	Addr          netip.Addr // unset: of the MAC address itself
	WasRemote     bool       // the MAC address was behind a remote
	Remote        netip.Addr // that one
}

// arrivalNames are the names of numbers in arrivals.
type arrivalNames struct {
	segments, ports map[uint32]string
	remotes         map[uint32]netip.Addr
}

// tellNames has FollowArrivals use the names that are assigned.
func (d *Datapath) tellNames() {
	n := &arrivalNames{d.names.segments, d.names.ports, make(map[uint32]netip.Addr, len(d.names.pathIDs))}
	for _, id := range d.names.pathIDs {
		_, n.remotes[id] = d.endName(id)
	}
	d.told.Store(n)
}

const (
	// mostArrivals bounds what is told at a time.
	mostArrivals = 1024
	// lossInterval is how often at most it is told that some could not be told.
	lossInterval = time.Second
)

// FollowArrivals calls do with arrivals as they come, until ctx ends. It may run beside
// everything but Close and Remove, once.
func (d *Datapath) FollowArrivals(ctx context.Context, do func([]Arrival)) error {
	reader, err := ringbuf.NewReader(d.objs.Arrivals)
	if err != nil {
		return fmt.Errorf("follow arrivals: %w", err)
	}
	defer reader.Close()
	defer context.AfterFunc(ctx, func() { reader.Close() })()
	f := arrivalFollower{d: d, reader: reader}
	if f.lost, err = d.arrivalsLost(); err != nil {
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

// arrivalFollower reads the ring of arrivals.
type arrivalFollower struct {
	d      *Datapath
	reader *ringbuf.Reader
	record ringbuf.Record
	lost   uint64    // arrivals that were lost when that was told last
	toldAt time.Time // when
}

// next waits for arrivals, a while.
func (f *arrivalFollower) next() ([]Arrival, error) {
	var list []Arrival
	f.reader.SetDeadline(time.Now().Add(lossInterval))
	for len(list) < mostArrivals {
		err := f.reader.ReadInto(&f.record)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			return nil, err
		}
		f.reader.SetDeadline(time.Unix(1, 0)) // what else is there
		var a sweepArrival
		if len(f.record.RawSample) < int(unsafe.Sizeof(a)) {
			return nil, fmt.Errorf("a record of %d bytes, not %d", len(f.record.RawSample), unsafe.Sizeof(a))
		}
		if _, err := binary.Decode(f.record.RawSample, binary.NativeEndian, &a); err != nil {
			return nil, err
		}
		list = f.d.told.Load().add(list, a)
	}
	return f.addLost(list)
}

// add appends an arrival, unless its segment or port went meanwhile.
func (n *arrivalNames) add(list []Arrival, a sweepArrival) []Arrival {
	if n == nil || n.segments[a.Segment] == "" || n.ports[a.End] == "" {
		return list
	}
	arrival := Arrival{Segment: n.segments[a.Segment], Port: n.ports[a.End], MAC: a.Mac}
	if a.Addr.W != [4]uint32{} {
		arrival.Addr = addrOf(a.Addr.W)
	}
	arrival.Remote, arrival.WasRemote = n.remotes[uint32(a.Was)], a.Was != 0
	return append(list, arrival)
}

func (f *arrivalFollower) addLost(list []Arrival) ([]Arrival, error) {
	lost, err := f.d.arrivalsLost()
	if err != nil || lost == f.lost || time.Since(f.toldAt) < lossInterval {
		return list, err
	}
	f.lost, f.toldAt = lost, time.Now()
	return append(list, Arrival{}), nil
}

// arrivalsLost counts arrivals that were not written.
func (d *Datapath) arrivalsLost() (n uint64, err error) {
	var perCPU []uint64
	if err := d.objs.Events.Lookup(uint32(edgeEventEVENT_ARRIVAL_LOST), &perCPU); err != nil {
		return 0, fmt.Errorf("read the counter of lost arrivals: %w", err)
	}
	for _, c := range perCPU {
		n += c
	}
	return n, nil
}
