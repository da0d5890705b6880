package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/selvage/selvage/lab/result"
)

// TimedOptions are of one run of transactions whose times are all written down, with
// one outstanding.
type TimedOptions struct {
	Request, Response int  // bytes; default 1
	Transactions      int  // default 10,000
	Warmup            int  // transactions before those; default 1,000
	Connect           bool // time the opening of a connection instead, a new one each time
	// FirstPort is the client's port of the first connection of Connect, the next having the
	// next; 0: any. Ports that are new make flows that are.
	FirstPort int
	Port      int  // the server's; default 5309
	Pin       *Pin // default: both ends on the first core, see RROptions
}

// Timed is the outcome of a run.
type Timed struct {
	Transactions []Transaction // in order
	Elapsed      time.Duration
	CPU          CPU
}

// Transaction is when a request (with Connect: a SYN) was sent and its answer there, and
// the same of the server. All times are of CLOCK_MONOTONIC, before and after the system
// calls; with Connect the server's are 0: its kernel answers.
type Transaction struct {
	Sent, ServerReceived, ServerSent, Received time.Duration
}

// RTT is the round-trip time as the client sees it.
func (t Transaction) RTT() time.Duration { return t.Received - t.Sent }

// Sample is the run as a sample of case "timed", without figures of latency: what to say
// of the times is the experiment's.
func (t *Timed) Sample() result.Sample { return sample("timed", t.Elapsed, t.CPU) }

// RunTimed makes transactions between two instruments in the hosts of ends.
func RunTimed(ctx context.Context, ends Ends, o TimedOptions) (*Timed, error) {
	setDefault(&o.Request, 1)
	setDefault(&o.Response, 1)
	setDefault(&o.Transactions, 10_000)
	setDefault(&o.Warmup, 1000)
	setDefault(&o.Port, 5309)
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	pin := o.Pin.or(Spread(0))
	common := flags("addr", ends.Addr, "port", o.Port, "request", o.Request, "response", o.Response,
		"transactions", o.Warmup+o.Transactions, "connect", o.Connect)
	var sent, served timedReport
	server := part{host: ends.Server, command: "lab-timed-server", flags: append(flags("core", pin.Server), common...)}
	if !o.Connect {
		server.what, server.report = "server of timed transactions", &served
	}
	cpu, err := converse(ctx, "tcp", o.Port, server, part{
		host: ends.Client, command: "lab-timed-client", what: "timed transactions", report: &sent,
		flags: append(flags("core", pin.Client, "first-port", o.FirstPort), common...),
	})
	if err != nil {
		return nil, err
	}
	return o.join(sent, served, cpu)
}

// join puts both sides' times together.
func (o TimedOptions) join(client, server timedReport, cpu CPU) (*Timed, error) {
	n := o.Warmup + o.Transactions
	if len(client.Sent) != n || len(client.Received) != n || !o.Connect && (len(server.Sent) != n || len(server.Received) != n) {
		return nil, fmt.Errorf("%d transactions were made; the client saw %d and the server %d", n, len(client.Received), len(server.Sent))
	}
	t := &Timed{CPU: cpu, Elapsed: time.Duration(client.Received[n-1] - client.Sent[o.Warmup])}
	for i := o.Warmup; i < n; i++ {
		one := Transaction{Sent: time.Duration(client.Sent[i]), Received: time.Duration(client.Received[i])}
		if !o.Connect {
			one.ServerReceived, one.ServerSent = time.Duration(server.Received[i]), time.Duration(server.Sent[i])
		}
		t.Transactions = append(t.Transactions, one)
	}
	return t, nil
}
