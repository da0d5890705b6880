package stages

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/stats"
)

// Figures are what was measured of a stage: values by round.
type Figures struct {
	Stage       Stage
	Throughput  map[int]float64 // Gbit/s of TCP
	RTT         map[int]float64 // µs, p50
	Retransmits map[int]float64
	Loss        map[int]float64 // share of datagrams
	MSS         map[int]float64 // bytes
	// Sent and Received are datagrams of all rounds.
	Sent, Received uint64
	Peers          []measure.Peer // of all connections that were asked for
	Errors         []string
}

const (
	// warmUp is what each slice begins with, unmeasured: TCP's slow start.
	warmUp = 200 * time.Millisecond
	// connections are the source ports of a question for the source address: a pool may have several addresses, and one that is full
	// may leave packets as they are.
	connections = 8
	// datagram is the payload of one whose loss is counted, in bytes: as small as any tunnel carries whole.
	datagram = 1000
	// mostErrors end the measuring of a stage: each takes long.
	mostErrors = 2
)

// Run measures all stages by turns. A stage that fails is measured no further. When ctx ends it returns what there is.
func Run(ctx context.Context, list []Stage, o Options, do Instrument, progress func(format string, args ...any)) []*Figures {
	r := &run{Options: o, do: do}
	for _, s := range list {
		f := &Figures{Stage: s, Throughput: map[int]float64{}, RTT: map[int]float64{}, Retransmits: map[int]float64{}, Loss: map[int]float64{}, MSS: map[int]float64{}}
		r.figures = append(r.figures, f)
		progress("stage %s: connect to %s port %d", s.Name, s.Addr, o.Port)
		if err := r.ask(ctx, f); err != nil { // a second time, as a first packet may find no neighbour
			if err = r.ask(ctx, f); err != nil {
				f.Errors = append(f.Errors, slices.Repeat([]string{err.Error()}, mostErrors)...)
			}
		}
	}
	for i, order := range stats.Balanced(r.figures, o.Rounds) {
		progress("round %d of %d", i+1, o.Rounds)
		for _, f := range order {
			r.round(ctx, f, i+1)
		}
	}
	for _, f := range r.figures {
		f.Errors = slices.Compact(f.Errors)
	}
	return r.figures
}

type run struct {
	Options
	do      Instrument
	figures []*Figures
}

// round takes the samples of a stage, unless it has failed.
func (r *run) round(ctx context.Context, f *Figures, round int) {
	for _, take := range []func(context.Context, *Figures, int) error{r.source, r.transfer, r.trips, r.datagrams} {
		if ctx.Err() != nil || len(f.Errors) >= mostErrors {
			return
		}
		if err := take(ctx, f, round); err != nil && ctx.Err() == nil {
			f.Errors = append(f.Errors, err.Error())
		}
	}
}

func (r *run) role(f *Figures, instrument string) measure.Role {
	return measure.Role{Instrument: instrument, Addr: f.Stage.Addr, Port: r.Port, Rate: r.Rate}
}

// ask has the server say which addresses connections come from.
func (r *run) ask(ctx context.Context, f *Figures) error {
	role := r.role(f, measure.RolePeer)
	role.Flows = connections
	client, _, err := r.do(ctx, f.Stage, role)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	peers, err := measure.ReadPeers(client)
	f.Peers = append(f.Peers, peers...)
	return err
}

// source is ask of each round, where the address counts.
func (r *run) source(ctx context.Context, f *Figures, _ int) error {
	if f.Stage.Name != Egress {
		return nil
	}
	return r.ask(ctx, f)
}

func (r *run) transfer(ctx context.Context, f *Figures, round int) error {
	role := r.role(f, measure.RoleBulk)
	role.Streams, role.Duration = 1, r.Slice+warmUp
	client, server, err := r.do(ctx, f.Stage, role)
	if err != nil {
		return fmt.Errorf("TCP: %w", err)
	}
	bulk, err := measure.ReadBulk(role, client, server)
	if err != nil {
		return err
	}
	rate := bulk.Steady(warmUp)
	if rate <= 0 {
		return fmt.Errorf("TCP: connections are opened, and in %s nothing of a transfer arrives: larger packets are lost on the way (selvage lab mtu)", role.Duration)
	}
	metrics := bulk.Sample().Metrics
	f.Throughput[round], f.Retransmits[round], f.MSS[round] = rate, metrics[measure.Retransmits], metrics[measure.MSS]
	return nil
}

func (r *run) trips(ctx context.Context, f *Figures, round int) error {
	role := r.role(f, measure.RoleRR)
	role.Size, role.Duration, role.Warmup = 1, r.Slice, warmUp
	client, _, err := r.do(ctx, f.Stage, role)
	if err != nil {
		return fmt.Errorf("round trips: %w", err)
	}
	rr, err := measure.ReadRR(role, client)
	if err == nil {
		f.RTT[round] = rr.Sample().Metrics[measure.RRP50]
	}
	return err
}

func (r *run) datagrams(ctx context.Context, f *Figures, round int) error {
	role := r.role(f, measure.RoleUDP)
	role.Size, role.Duration, role.Rate = datagram, r.Slice, r.LossRate
	client, server, err := r.do(ctx, f.Stage, role)
	if err != nil {
		return fmt.Errorf("UDP: %w", err)
	}
	udp, err := measure.ReadUDP(role, client, server)
	if err != nil {
		return err
	}
	f.Sent, f.Received = f.Sent+udp.Sent, f.Received+min(udp.Received, udp.Sent)
	f.Loss[round] = max(0, udp.Sample().Metrics[measure.UDPLoss])
	return nil
}

// addresses are what was seen of the client, with the number of connections.
func (f *Figures) addresses() (list []netip.Addr, count map[netip.Addr]int) {
	count = map[netip.Addr]int{}
	for _, p := range f.Peers {
		if count[p.Seen]++; count[p.Seen] == 1 {
			list = append(list, p.Seen)
		}
	}
	return list, count
}
