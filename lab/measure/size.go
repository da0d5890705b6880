package measure

import (
	"context"
	"net/netip"
	"time"

	"github.com/selvage/selvage/lab/result"
)

// SizeOptions are of a search for the largest packet that arrives, one way.
type SizeOptions struct {
	Most, Least int           // bytes of the IP packet; default 1500 and 576
	Flows       int           // source ports, each searched by itself; default 16
	Patience    time.Duration // for an answer, thrice; default 100 ms
	Port        int           // default 5304
}

// Size is the outcome of a search.
type Size struct {
	Flows   []FlowSize
	Elapsed time.Duration
	CPU     CPU
}

// FlowSize is what was found for one source port.
type FlowSize struct {
	Port int `json:"port"`
	// Largest IP packet that arrived in bytes, 0 when none did.
	Largest int `json:"largest"`
	// Reported is the smallest MTU that a "too big" message (ICMP type 3 code 4, ICMPv6
	// type 2) named to the sender of the largest size, 0 when none came.
	Reported int `json:"reported"`
	// Believed is the MTU of the path by the sender's kernel before any probe: that of its
	// interface or route, or what an earlier message said.
	Believed int `json:"believed"`
	// RTT is that of the fastest of some small probes, µs; 0 when none was answered.
	RTT float64 `json:"rtt,omitempty"`
	// Local is the address that the probes left from.
	Local netip.Addr `json:"local,omitzero"`
}

// RunSize probes from the client of ends to the server with UDP datagrams that
// must not be fragmented, whatever the route's cached MTU says. Answers are
// small. The server's kernel takes no part in fragmenting.
func RunSize(ctx context.Context, ends Ends, o SizeOptions) (*Size, error) {
	setDefault(&o.Most, 1500)
	setDefault(&o.Least, 576)
	setDefault(&o.Flows, 16)
	setDefault(&o.Patience, 100*time.Millisecond)
	setDefault(&o.Port, 5304)
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	common := flags("addr", ends.Addr, "port", o.Port)
	echo, err := part{host: ends.Server, command: "lab-size-echo", flags: common}.serve(ctx, "udp", o.Port)
	if err != nil {
		return nil, err
	}
	defer echo.Kill()
	size := &Size{}
	began := time.Now()
	size.CPU, err = part{
		host: ends.Client, command: "lab-size-probe", what: "size probe", report: &size.Flows,
		flags: append(flags("most", o.Most, "least", o.Least, "flows", o.Flows, "patience", o.Patience), common...),
	}.ask(ctx, echo)
	if err != nil {
		return nil, err
	}
	size.Elapsed = time.Since(began)
	return size, nil
}

// Sample is the search as a sample of case "size".
func (z *Size) Sample() result.Sample {
	s := sample("size", z.Elapsed, z.CPU)
	s.Series = map[string][]float64{}
	for i, f := range z.Flows {
		largest, reported := float64(f.Largest), float64(f.Reported)
		s.Series[LargestSeries] = append(s.Series[LargestSeries], largest)
		s.Series[ReportedSeries] = append(s.Series[ReportedSeries], reported)
		if i == 0 || largest < s.Metrics[LargestSize] {
			s.Metrics[LargestSize] = largest
		}
		s.Metrics[LargestBest] = max(s.Metrics[LargestBest], largest)
		s.Metrics[BelievedMTU] = max(s.Metrics[BelievedMTU], float64(f.Believed))
		if f.Reported == 0 {
			continue
		}
		s.Metrics[ReportedFlows]++
		if s.Metrics[ReportedMTU] == 0 || reported < s.Metrics[ReportedMTU] {
			s.Metrics[ReportedMTU] = reported
		}
	}
	s.Metrics[Flows] = float64(len(z.Flows))
	return s
}

// bisection finds the largest size that passes, between sizes that do and do not.
type bisection struct {
	least, most int
	passes      int // largest that did, 0 before any
	fails       int // smallest that did not, 0 before any
}

// next is the size to try, 0 when there is nothing left to try: first the
// largest, which on most paths is the answer, then the least, then the middle.
func (b bisection) next() int {
	switch {
	case b.passes == 0 && b.fails == 0:
		return b.most
	case b.passes == 0 && b.fails <= b.least, b.fails == 0, b.fails == b.passes+1:
		return 0
	case b.passes == 0:
		return b.least
	}
	return (b.passes + b.fails) / 2
}

// tried notes what became of a size.
func (b *bisection) tried(size int, passed bool) {
	if passed {
		b.passes = size
	} else {
		b.fails = size
	}
}
