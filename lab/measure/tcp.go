package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/result"
)

// TCPOptions are of one iperf3 run.
type TCPOptions struct {
	Duration time.Duration // whole seconds; default 10 s, as the FortiGate study
	Streams  int           // default 1
	Length   int           // bytes a write; default iperf3's, 128 KiB
	Reverse  bool          // the server sends
	Port     int           // default 5201
	Pin      *Pin          // default: apart
	// Unwatched leaves the socket alone in mid-run, as where many runs share the machine.
	Unwatched bool
}

// TCP is the outcome of a run. Rates are bits per second of payload.
type TCP struct {
	Options        TCPOptions // as used
	Sent, Received float64
	SentBytes      int64
	ReceivedBytes  int64
	Retransmits    int64
	Elapsed        time.Duration // of receiving
	Intervals      []Interval
	Socket         Socket // of the sender in mid-run; empty where unwatched
	CPU            CPU
}

// Interval is one reporting interval, a second long, as the client saw it.
type Interval struct {
	Start, Seconds float64
	BitsPerSecond  float64
	Retransmits    int64
}

// iperf3's JSON document, as far as it is used.
type iperfReport struct {
	Error     string `json:"error"`
	Intervals []struct {
		Sum iperfSum `json:"sum"`
	} `json:"intervals"`
	End struct {
		Sent     iperfSum `json:"sum_sent"`
		Received iperfSum `json:"sum_received"`
	} `json:"end"`
}

type iperfSum struct {
	Start         float64 `json:"start"`
	Seconds       float64 `json:"seconds"`
	Bytes         int64   `json:"bytes"`
	BitsPerSecond float64 `json:"bits_per_second"`
	Retransmits   int64   `json:"retransmits"`
}

func parseIperf(data []byte) (*TCP, error) {
	var report iperfReport
	if err := json.Unmarshal(data, &report); err != nil {
		return nil, fmt.Errorf("iperf3's report: %w", err)
	}
	if report.Error != "" {
		return nil, fmt.Errorf("iperf3: %s", report.Error)
	}
	sent, received := report.End.Sent, report.End.Received
	if received.Seconds <= 0 {
		return nil, errors.New("iperf3's report has no end: the run did not finish")
	}
	run := &TCP{
		Sent: sent.BitsPerSecond, Received: received.BitsPerSecond,
		SentBytes: sent.Bytes, ReceivedBytes: received.Bytes,
		Retransmits: sent.Retransmits,
		Elapsed:     time.Duration(received.Seconds * float64(time.Second)),
	}
	for _, interval := range report.Intervals {
		sum := interval.Sum
		if sum.Seconds < 0.5 { // the last may be a scrap
			continue
		}
		run.Intervals = append(run.Intervals, Interval{sum.Start, sum.Seconds, sum.BitsPerSecond, sum.Retransmits})
	}
	return run, nil
}

// RunTCP runs an iperf3 server and client in the hosts of ends.
func RunTCP(ctx context.Context, ends Ends, o TCPOptions) (*TCP, error) {
	setDefault(&o.Duration, 10*time.Second)
	setDefault(&o.Streams, 1)
	setDefault(&o.Port, 5201)
	pin := o.Pin.or(Apart())
	ctx, cancel := context.WithTimeout(ctx, o.Duration+patience)
	defer cancel()

	server := ends.Server.Command(ctx, "iperf3", "-s", "-1", "-p", strconv.Itoa(o.Port))
	server.CPUs = cpus(pin.Server)
	if err := server.Start(); err != nil {
		return nil, err
	}
	defer server.Kill()
	if err := ends.Server.AwaitListen(ctx, "tcp", o.Port); err != nil {
		return nil, err
	}
	before, err := ReadCPU()
	if err != nil {
		return nil, err
	}
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	socket := watchSocket(watching, ends, o)
	client := ends.Client.Command(ctx, append([]string{"iperf3"}, o.arguments(ends.Addr)...)...)
	client.CPUs = cpus(pin.Client)
	output, failed := client.Output()
	if failed != nil {
		stopWatching()
	}
	after, err := ReadCPU()
	if err != nil {
		return nil, err
	}
	seen := <-socket
	run, err := parseIperf(output)
	if failed != nil { // with its error in the report, if there is one
		return nil, errors.Join(err, failed)
	}
	if err = errors.Join(err, seen.err); err != nil {
		return nil, err
	}
	run.Options, run.Socket, run.CPU = o, seen.Socket, after.Since(before)
	return run, nil
}

func (o TCPOptions) arguments(addr netip.Addr) []string {
	seconds := strconv.Itoa(int((o.Duration + time.Second - 1) / time.Second))
	args := []string{"-J", "-c", addr.String(), "-p", strconv.Itoa(o.Port), "-i", "1",
		"-t", seconds, "-P", strconv.Itoa(o.Streams), "--connect-timeout", "5000"}
	if o.Length > 0 {
		args = append(args, "-l", strconv.Itoa(o.Length))
	}
	if o.Reverse {
		args = append(args, "-R")
	}
	return args
}

type seenSocket struct {
	Socket
	err error
}

// watchSocket looks once, in mid-run, at the busiest connection of the end that
// sends.
func watchSocket(ctx context.Context, ends Ends, o TCPOptions) <-chan seenSocket {
	seen := make(chan seenSocket, 1)
	host, filter := ends.Client, "dport"
	if o.Reverse {
		host, filter = ends.Server, "sport"
	}
	if o.Unwatched {
		seen <- seenSocket{}
		return seen
	}
	go func() {
		select {
		case <-ctx.Done():
			seen <- seenSocket{err: ctx.Err()}
		case <-time.After(o.Duration / 2):
			var socket Socket
			// On a busy machine iperf3 has not begun to send in mid-run.
			err := await.Within(ctx, o.Duration, "data on a connection", func() (err error) {
				socket, err = busiestSocket(ctx, host, filter, o.Port)
				return err
			})
			seen <- seenSocket{socket, err}
		}
	}()
	return seen
}

// Sample is the run as a sample of case "tcp".
func (t *TCP) Sample() result.Sample {
	s := sample("tcp", t.Elapsed, t.CPU)
	s.Metrics[TCPThroughput] = t.Received / 1e9
	s.Metrics[TCPSent] = t.Sent / 1e9
	s.Metrics[Retransmits] = float64(t.Retransmits)
	if t.ReceivedBytes > 0 {
		s.Metrics[CPUPerGB] = t.CPU.Busy / (float64(t.ReceivedBytes) / 1e9)
	}
	if !t.Options.Unwatched {
		s.Metrics[MSS] = float64(t.Socket.MSS)
		s.Metrics[RTT] = t.Socket.RTT
		s.Metrics[Cwnd] = float64(t.Socket.Cwnd)
	}
	s.Series = map[string][]float64{}
	for _, i := range t.Intervals {
		s.Series[TCPSeries] = append(s.Series[TCPSeries], i.BitsPerSecond/1e9)
		s.Series[RetransmitSeries] = append(s.Series[RetransmitSeries], float64(i.Retransmits))
	}
	return s
}
