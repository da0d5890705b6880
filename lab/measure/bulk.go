package measure

import (
	"context"
	"time"

	"github.com/selvage/selvage/lab/result"
)

// BulkOptions are of one bulk transfer one way, which ends when its time is over
// whether or not a byte has arrived: iperf3 may wait for ever where a path
// swallows what is large.
type BulkOptions struct {
	Duration time.Duration // default 1 s
	Interval time.Duration // of the series; default 100 ms
	Streams  int           // default 1
	MSS      int           // bytes to ask for (TCP_MAXSEG); 0 leaves it to TCP
	Port     int           // default 5303
	Pin      *Pin          // default: apart
}

// Bulk is the outcome of a transfer.
type Bulk struct {
	Options BulkOptions // as used
	// Written is what the sending program got rid of in each interval, and so
	// includes what only filled the socket's buffer; Received is what arrived.
	Written, Received []int64 // bytes
	Sockets           []Socket
	CPU               CPU
}

// RunBulk sends from the client of ends to the server.
func RunBulk(ctx context.Context, ends Ends, o BulkOptions) (*Bulk, error) {
	setDefault(&o.Duration, time.Second)
	setDefault(&o.Interval, 100*time.Millisecond)
	setDefault(&o.Streams, 1)
	setDefault(&o.Port, 5303)
	pin := o.Pin.or(Apart())
	ctx, cancel := context.WithTimeout(ctx, o.Duration+patience)
	defer cancel()
	common := flags("addr", ends.Addr, "port", o.Port, "streams", o.Streams, "duration", o.Duration, "interval", o.Interval)
	var sent, received bulkReport
	cpu, err := converse(ctx, "tcp", o.Port,
		part{host: ends.Server, cpus: cpus(pin.Server), command: "lab-bulk-sink", flags: common, what: "bulk sink", report: &received},
		part{
			host: ends.Client, cpus: cpus(pin.Client), command: "lab-bulk-source", what: "bulk source", report: &sent,
			flags: append(flags("mss", o.MSS), common...),
		})
	if err != nil {
		return nil, err
	}
	return &Bulk{Options: o, Written: sent.Bytes, Received: received.Bytes, Sockets: sent.Sockets, CPU: cpu}, nil
}

// Sample is the transfer as a sample of case "bulk". Of several streams' sockets
// the metrics are those with the least MSS.
func (b *Bulk) Sample() result.Sample {
	s := sample("bulk", b.Options.Duration, b.CPU)
	seconds := b.Options.Duration.Seconds()
	received := total(b.Received)
	s.Metrics[TCPThroughput] = float64(received) * 8 / 1e9 / seconds
	s.Metrics[TCPSent] = float64(total(b.Written)) * 8 / 1e9 / seconds
	s.Metrics[Streams] = float64(b.Options.Streams)
	if received > 0 {
		s.Metrics[CPUPerGB] = b.CPU.Busy / (float64(received) / 1e9)
	}
	var least Socket
	for i, socket := range b.Sockets {
		s.Metrics[Retransmits] += float64(socket.Retransmits)
		if i == 0 || socket.MSS < least.MSS {
			least = socket
		}
	}
	s.Metrics[MSS], s.Metrics[PathMTU] = float64(least.MSS), float64(least.PathMTU)
	s.Metrics[RTT], s.Metrics[Cwnd] = least.RTT, float64(least.Cwnd)
	s.Series = map[string][]float64{TCPSeries: b.rates(b.Received), WrittenSeries: b.rates(b.Written)}
	return s
}

// rates are Gbit/s of each interval.
func (b *Bulk) rates(bytes []int64) []float64 {
	rates := make([]float64, len(bytes))
	for i, n := range bytes {
		rates[i] = float64(n) * 8 / 1e9 / b.Options.Interval.Seconds()
	}
	return rates
}

func total(xs []int64) (sum int64) {
	for _, x := range xs {
		sum += x
	}
	return sum
}
