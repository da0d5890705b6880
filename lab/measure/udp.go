package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/selvage/selvage/lab/result"
)

// UDPOptions are of one run of small packets one way, as fast as one blocking
// sender goes.
type UDPOptions struct {
	Payload  int           // bytes; default 18
	Duration time.Duration // default 2 s
	Port     int           // default 5302
	Pin      *Pin          // default: apart
}

// UDP is the outcome of a run.
type UDP struct {
	Sent, Received uint64
	Elapsed        time.Duration // of sending
	CPU            CPU
}

// RunUDP resolves the server's address and then floods it.
func RunUDP(ctx context.Context, ends Ends, o UDPOptions) (*UDP, error) {
	setDefault(&o.Payload, 18)
	setDefault(&o.Duration, 2*time.Second)
	setDefault(&o.Port, 5302)
	pin := o.Pin.or(Apart())
	ctx, cancel := context.WithTimeout(ctx, o.Duration+patience)
	defer cancel()
	if err := ends.Client.Reach(ctx, ends.Addr); err != nil {
		return nil, err
	}
	common := flags("addr", ends.Addr, "port", o.Port, "duration", o.Duration)
	var sent, received udpReport
	cpu, err := converse(ctx, "udp", o.Port,
		part{
			host: ends.Server, command: "lab-udp-receiver", what: "UDP receiver", report: &received,
			flags: append(flags("core", pin.Server), common...),
		},
		part{
			host: ends.Client, command: "lab-udp-sender", what: "UDP sender", report: &sent,
			flags: append(flags("core", pin.Client, "payload", o.Payload), common...),
		})
	if err != nil {
		return nil, err
	}
	return sent.run(received, o.Duration, cpu)
}

// run is what a sender and a receiver report of one.
func (r udpReport) run(received udpReport, planned time.Duration, cpu CPU) (*UDP, error) {
	if r.Packets == 0 {
		return nil, fmt.Errorf("UDP sender: nothing was sent in %s", planned)
	}
	elapsed := time.Duration(r.ElapsedNS)
	return &UDP{Sent: r.Packets, Received: received.Packets, Elapsed: elapsed, CPU: cpu}, judge("UDP sender", elapsed)
}

// Sample is the run as a sample of case "udp". Both rates are over the time of
// sending, so their ratio is what was not lost.
func (u *UDP) Sample() result.Sample {
	s := sample("udp", u.Elapsed, u.CPU)
	kpps := func(packets uint64) float64 { return float64(packets) / u.Elapsed.Seconds() / 1e3 }
	s.Metrics[UDPRate] = kpps(u.Received)
	s.Metrics[UDPSentRate] = kpps(u.Sent)
	s.Metrics[UDPLoss] = 1 - float64(u.Received)/float64(u.Sent)
	return s
}
