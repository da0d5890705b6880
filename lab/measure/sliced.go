package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/result"
)

// Sliced is an instrument whose processes stay up and measure one slice after the other, so
// that several data paths take turns within fractions of a second. Between slices it
// sends nothing.
type Sliced interface {
	// Slice measures for that long. A slice that failed counts for nothing.
	Slice(ctx context.Context, d time.Duration) error
	// Forget begins anew, as after slices that warmed up.
	Forget()
	// Sample is all slices so far. Series holds the figures of each, by the metric's
	// name; Metrics what is one figure of all of them, such as a loss.
	Sample() result.Sample
	// Close ends its processes.
	Close()
}

// WarmUp is what each slice of a connection begins with, unmeasured: the caches are the last path's.
const WarmUp = 2 * time.Millisecond

// worker is a process that does what it reads, a line at a time, and replies to each.
type worker struct {
	*instrument
	orders  *os.File
	replies *json.Decoder
	answers *os.File // what replies reads
}

// slicedPair is a server and a client that measures slices.
type slicedPair struct {
	server *instrument
	client *worker
	sample result.Sample
	took   time.Duration
	stolen float64 // seconds, of all cores at once
}

// stand starts a server, waits until it listens, and starts the client that it is for.
func stand(ctx context.Context, network string, port int, server, client part) (*slicedPair, error) {
	serving, err := server.serve(ctx, network, port)
	if err != nil {
		return nil, err
	}
	s := &slicedPair{server: serving}
	s.Forget()
	if s.client, err = client.startWorker(ctx); err != nil {
		err = withCause(err, serving)
		s.Close()
		return nil, err
	}
	return s, nil
}

// Forget begins anew.
func (s *slicedPair) Forget() {
	s.sample = result.Sample{Metrics: map[string]float64{}, Series: map[string][]float64{}}
	s.took, s.stolen = 0, 0
}

// startWorker starts a process that takes orders.
func (p part) startWorker(ctx context.Context) (*worker, error) {
	ordersIn, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	answers, answersOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, ordersIn.Close(), orders.Close())
	}
	i, err := p.begin(ctx, ordersIn, answersOut)
	err = errors.Join(err, ordersIn.Close(), answersOut.Close())
	w := &worker{instrument: i, orders: orders, replies: json.NewDecoder(answers), answers: answers}
	if err != nil {
		w.end()
		return nil, err
	}
	return w, nil
}

// end ends the process, if it is one.
func (w *worker) end() {
	if w == nil {
		return
	}
	if w.instrument != nil {
		w.Kill()
	}
	_, _ = w.orders.Close(), w.answers.Close() // of a process that is gone
}

// measure has it measure for that long, and reads its reply.
func (w *worker) measure(ctx context.Context, d time.Duration, into any) error {
	stop := context.AfterFunc(ctx, func() { _ = w.orders.SetDeadline(time.Unix(1, 0)); w.Kill() })
	defer stop()
	_, err := fmt.Fprintln(w.orders, d)
	if err == nil {
		err = w.replies.Decode(into)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return withCause(fmt.Errorf("%s: %w", w, err), w.instrument)
	}
	return nil
}

// Close ends both processes.
func (s *slicedPair) Close() {
	s.client.end()
	if s.server != nil {
		s.server.Kill()
	}
}

// take has the client measure for that long, and reads what it says.
func (s *slicedPair) take(ctx context.Context, d time.Duration, into any) error {
	ctx, cancel := context.WithTimeout(ctx, d+patience)
	defer cancel()
	return s.client.measure(ctx, d, into)
}

// slice does so, and says what the cores did meanwhile.
func (s *slicedPair) slice(ctx context.Context, d time.Duration, into any) (CPU, error) {
	before, err := ReadCPU()
	if err != nil {
		return CPU{}, err
	}
	if err := s.take(ctx, d, into); err != nil {
		return CPU{}, err
	}
	after, err := ReadCPU()
	return after.Since(before), err
}

// add keeps a figure of a slice.
func (s *slicedPair) add(metric string, value float64) {
	s.sample.Series[metric] = append(s.sample.Series[metric], value)
}

// ran notes how long a slice was, and what share others took of the machine meanwhile.
func (s *slicedPair) ran(took time.Duration, cpu CPU) {
	s.took += took
	s.stolen += cpu.Steal * took.Seconds()
	s.sample.Metrics[CPUSteal] = s.stolen / s.took.Seconds()
}

// SlicedRR is RunRR in slices.
type SlicedRR struct {
	*slicedPair
	latency *hdrhistogram.Histogram
}

// StandRR starts both ends, which keep one connection. Duration and Warmup of o are not used.
func StandRR(ctx context.Context, ends Ends, o RROptions) (*SlicedRR, error) {
	o.fill()
	pin := o.Pin.or(Spread(0))
	common := flags("addr", ends.Addr, "port", o.Port, "network", o.Network, "request", o.Request, "response", o.Response)
	s, err := stand(ctx, o.Network, o.Port,
		part{host: ends.Server, command: "lab-rr-server", flags: append(flags("core", pin.Server, "idle", true), common...)},
		part{host: ends.Client, command: "lab-rr-slices", what: "request/response", flags: append(flags("core", pin.Client), common...)})
	if err != nil {
		return nil, err
	}
	return &SlicedRR{slicedPair: s}, nil
}

// Slice measures transactions for that long.
func (r *SlicedRR) Slice(ctx context.Context, d time.Duration) error {
	var report rrReport
	cpu, err := r.slice(ctx, d, &report)
	if err != nil {
		return err
	}
	h, err := latencies("request/response", report.Snapshot, time.Duration(report.ElapsedNS), report.Transactions)
	if err != nil {
		return err
	}
	r.add(RRP50, quantile(h, 0.5))
	r.add(RRP99, quantile(h, 0.99))
	r.add(RRRate, float64(report.Transactions)/time.Duration(report.ElapsedNS).Seconds())
	if r.latency == nil {
		r.latency = hdrhistogram.New(1, h.HighestTrackableValue(), rrDigits)
	}
	r.latency.Merge(h)
	r.ran(time.Duration(report.ElapsedNS), cpu)
	return nil
}

// Forget begins anew.
func (r *SlicedRR) Forget() {
	r.slicedPair.Forget()
	r.latency = nil
}

// Sample is all slices, with the distribution of all of their transactions.
func (r *SlicedRR) Sample() result.Sample {
	s := r.sample
	s.Duration = r.took.Seconds()
	if r.latency != nil {
		s.Latency = quantiles(r.latency)
	}
	return s
}

// SlicedUDP is RunUDP in slices.
type SlicedUDP struct {
	*slicedPair
	receiver *worker
	sent     uint64
	lost     uint64
	received uint64 // by the receiver, since it began
}

// StandUDP starts both ends. Duration of o is not used.
func StandUDP(ctx context.Context, ends Ends, o UDPOptions) (*SlicedUDP, error) {
	setDefault(&o.Payload, 18)
	setDefault(&o.Port, 5302)
	pin := o.Pin.or(Apart())
	if err := ends.Client.Reach(ctx, ends.Addr); err != nil {
		return nil, err
	}
	u := &SlicedUDP{slicedPair: new(slicedPair)}
	u.Forget()
	common := flags("addr", ends.Addr, "port", o.Port)
	err := u.start(ctx,
		part{host: ends.Server, command: "lab-udp-count", flags: append(flags("core", pin.Server), common...), what: "UDP receiver"},
		part{host: ends.Client, command: "lab-udp-slices", flags: append(flags("core", pin.Client, "payload", o.Payload), common...), what: "UDP sender"},
		o.Port)
	if err != nil {
		u.Close()
		return nil, err
	}
	return u, nil
}

func (u *SlicedUDP) start(ctx context.Context, server, client part, port int) (err error) {
	if u.receiver, err = server.startWorker(ctx); err != nil {
		return err
	}
	if err := server.host.AwaitListen(ctx, "udp", port); err != nil {
		return withCause(err, u.receiver.instrument)
	}
	u.client, err = client.startWorker(ctx)
	return err
}

// Close ends both processes.
func (u *SlicedUDP) Close() {
	u.slicedPair.Close()
	u.receiver.end()
}

// Slice floods for that long, and waits until what is on its way has come. Both rates are over
// the time of sending.
func (u *SlicedUDP) Slice(ctx context.Context, d time.Duration) error {
	var sent udpReport
	cpu, err := u.slice(ctx, d, &sent)
	if err != nil {
		return err
	}
	received, err := u.settle(ctx, u.received+sent.Packets)
	if err != nil {
		return err
	}
	run, err := sent.run(udpReport{Packets: min(received-u.received, sent.Packets)}, d, cpu)
	if err != nil {
		return err
	}
	elapsed, got := run.Elapsed, run.Received
	kpps := func(packets uint64) float64 { return float64(packets) / elapsed.Seconds() / 1e3 }
	u.add(UDPRate, kpps(got))
	u.add(UDPSentRate, kpps(sent.Packets))
	u.sent, u.received = u.sent+sent.Packets, received
	u.lost += sent.Packets - got
	u.ran(elapsed, cpu)
	return nil
}

// udpQuiet is how long nothing more comes once all has.
const udpQuiet = 20 * time.Millisecond

// settle asks the receiver until it has that many packets, or no more come.
func (u *SlicedUDP) settle(ctx context.Context, want uint64) (uint64, error) {
	var have udpReport
	var last uint64
	var since time.Time
	err := await.That(ctx, "UDP receiver to come to rest", func() error {
		if err := u.receiver.measure(ctx, 0, &have); err != nil {
			return err
		}
		if have.Packets != last || since.IsZero() {
			last, since = have.Packets, time.Now()
		}
		if have.Packets >= want || time.Since(since) >= udpQuiet {
			return nil
		}
		return fmt.Errorf("it has %d of %d packets", have.Packets, want)
	})
	return have.Packets, err
}

// Forget begins anew.
func (u *SlicedUDP) Forget() {
	u.slicedPair.Forget()
	u.sent, u.lost = 0, 0
}

// Sample is all slices; the loss is that of all of their packets.
func (u *SlicedUDP) Sample() result.Sample {
	s := u.sample
	s.Duration = u.took.Seconds()
	if u.sent > 0 {
		s.Metrics[UDPLoss] = float64(u.lost) / float64(u.sent)
		s.Metrics[UDPLossPPM] = 1e6 * s.Metrics[UDPLoss]
	}
	return s
}

// SlicedTCP is a bulk transfer in slices, over connections that stay.
type SlicedTCP struct {
	*slicedPair
	streams  int
	retrans  int64
	last     Socket
	cores    []result.CPUShare // sums of shares times seconds
	measured float64           // seconds
}

// StandTCP starts both ends. Of o Streams, Port and Pin are used.
func StandTCP(ctx context.Context, ends Ends, o BulkOptions) (*SlicedTCP, error) {
	setDefault(&o.Streams, 1)
	setDefault(&o.Port, 5303)
	pin := o.Pin.or(Apart())
	common := flags("addr", ends.Addr, "port", o.Port, "streams", o.Streams)
	s, err := stand(ctx, "tcp", o.Port,
		part{host: ends.Server, cpus: cpus(pin.Server), command: "lab-tcp-drain", flags: common},
		part{host: ends.Client, cpus: cpus(pin.Client), command: "lab-tcp-slices", flags: common, what: "bulk source"})
	if err != nil {
		return nil, err
	}
	return &SlicedTCP{slicedPair: s, streams: o.Streams}, nil
}

// starved is how often a slice may have nothing, as where others use the machine: then one end has
// not run in it, and it says nothing of the path.
const starved = 10

// Slice sends for that long. What counts is what the other end has acknowledged between two
// looks; CPU time is that of the whole slice and all of its bytes, so work that is put off counts.
func (t *SlicedTCP) Slice(ctx context.Context, d time.Duration) error {
	var report tcpSlice
	var ran time.Duration
	for try := 1; report.Bytes <= 0; try++ {
		if try > starved {
			return fmt.Errorf("bulk source: nothing was acknowledged in %d times %s", starved, d)
		}
		before, err := ReadRunTime()
		if err != nil {
			return err
		}
		if err := t.take(ctx, d, &report); err != nil {
			return err
		}
		after, err := ReadRunTime()
		if err != nil {
			return err
		}
		ran = after.Since(before)
	}
	elapsed := time.Duration(report.ElapsedNS)
	if err := judge("bulk source", elapsed, report.All); err != nil {
		return err
	}
	t.add(TCPThroughput, float64(report.Bytes)*8/1e9/elapsed.Seconds())
	t.add(CPUPerGB, ran.Seconds()/(float64(report.All)/1e9))
	t.retrans += report.Socket.Retransmits - t.last.Retransmits
	t.last = report.Socket
	t.spent(report.CPU, elapsed.Seconds())
	t.ran(elapsed, report.CPU)
	return nil
}

// Forget begins anew.
func (t *SlicedTCP) Forget() {
	t.slicedPair.Forget()
	t.retrans, t.cores, t.measured = 0, nil, 0
}

// spent adds what the cores did in a slice.
func (t *SlicedTCP) spent(cpu CPU, seconds float64) {
	t.measured += seconds
	if t.cores == nil {
		t.cores = make([]result.CPUShare, len(cpu.Cores))
	}
	for i, c := range cpu.Cores[:min(len(cpu.Cores), len(t.cores))] {
		sum := &t.cores[i]
		sum.Core = c.Core
		sum.User, sum.System = sum.User+c.User*seconds, sum.System+c.System*seconds
		sum.SoftIRQ, sum.Idle = sum.SoftIRQ+c.SoftIRQ*seconds, sum.Idle+c.Idle*seconds
	}
}

// Sample is all slices. What each core did, whose clock has ticks of 10 ms, is one figure of all.
func (t *SlicedTCP) Sample() result.Sample {
	s := t.sample
	s.Duration = t.took.Seconds()
	s.Metrics[Retransmits] = float64(t.retrans)
	s.Metrics[Streams] = float64(t.streams)
	s.Metrics[MSS], s.Metrics[PathMTU] = float64(t.last.MSS), float64(t.last.PathMTU)
	s.Metrics[RTT], s.Metrics[Cwnd] = t.last.RTT, float64(t.last.Cwnd)
	for _, c := range t.cores {
		c.User, c.System = c.User/t.measured, c.System/t.measured
		c.SoftIRQ, c.Idle = c.SoftIRQ/t.measured, c.Idle/t.measured
		s.CPU = append(s.CPU, c)
	}
	return s
}
