package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/observe"
	"github.com/selvage/selvage/internal/printable"
	"github.com/selvage/selvage/internal/trace"
)

// packetFilter has the flags and words that choose packets.
type packetFilter struct {
	Reason   []string      `sep:"," placeholder:"REASON" help:"Only packets that were dropped for one of these reasons."`
	Port     string        `placeholder:"NAME" help:"Only packets from or to this local port, or that its firewall refused; for a trunk, those of all VLANs."`
	Segment  string        `placeholder:"NAME" help:"Only packets from or to this segment."`
	Remote   netip.Addr    `placeholder:"ADDRESS" help:"Only packets from or to this remote, or from this outer source address."`
	Sample   int           `placeholder:"N" help:"Of forwarded packets only one of N, on each core."`
	Duration time.Duration `placeholder:"TIME" help:"End after this time, such as 10s."`
	Filter   []string      `arg:"" optional:"" help:"Only packets whose inner headers are so: tcp, udp, icmp, ip [PROTOCOL], arp or raw ETHERTYPE, then src, dst or host PREFIX, sport, dport or port NUMBER, or ADDRESS:PORT > ADDRESS:PORT."`
}

// question asks for these packets.
func (f packetFilter) question(count, rate, snaplen int) (api.MonitorQuery, error) {
	words := strings.Join(f.Filter, " ")
	if _, err := trace.ParseFilter(words); err != nil {
		return api.MonitorQuery{}, usageError{err}
	}
	for name, n := range map[string]int{"--sample": f.Sample, "--count": count, "--duration": int(f.Duration)} {
		if n < 0 {
			return api.MonitorQuery{}, usageError{fmt.Errorf("%s: it is negative", name)}
		}
	}
	return api.MonitorQuery{
		Reasons: f.Reason, Port: f.Port, Segment: f.Segment, Remote: f.Remote, Sample: f.Sample, Filter: words,
		Count: count, Duration: f.Duration, Rate: rate, Snaplen: snaplen,
	}, nil
}

// filterHelp is for both commands.
const filterHelp = "All that is given must be so. The edge filters in the kernel, before a packet is copied. " +
	"It tells at most --rate packets a second, and counts the others: shown and not shown together are what matched. " +
	"At most 4 of these commands run at a time on one edge."

type monitorCmd struct {
	target
	Output string `short:"o" enum:"text,json" default:"text" placeholder:"FORMAT" help:"Print text, or a JSON document a line: ${enum}."`
	packetFilter
	Drops     bool `negatable:"" default:"true" help:"Show dropped packets."`
	Forwarded bool `help:"Also show forwarded packets; --sample implies that."`
	Count     int  `placeholder:"N" help:"End after N packets."`
	Rate      int  `default:"1000" placeholder:"N" help:"Show at most N packets a second."`
	Summary   bool `help:"Instead of packets, show who causes most of them, every second."`
}

// Help says what kong's flags do not.
func (*monitorCmd) Help() string { return filterHelp }

// Run shows packets until Ctrl-C, the count or the duration.
func (c *monitorCmd) Run(ctx context.Context, s *streams) error {
	q, err := c.question(c.Count, c.Rate, 0)
	if err != nil {
		return err
	}
	q.Drops, q.Forwarded = c.Drops, (c.Forwarded || c.Sample > 0) && len(c.Reason) == 0
	if !q.Drops && !q.Forwarded {
		return usageError{errors.New("--no-drops: nothing is left to show; give --forwarded too, without --reason")}
	}
	client, err := c.dial()
	if err != nil {
		return err
	}
	show := c.lines(s.out)
	if c.Summary {
		show = summary(c, s)
	}
	counts, err := client.Monitor(ctx, q, show)
	if err == nil && c.Output != "json" {
		fmt.Fprintln(s.err, observe.MonitorTotals(counts))
	}
	return err
}

// lines writes each packet, and each second how many are not shown.
func (c *monitorCmd) lines(w io.Writer) func(api.MonitorLine) error {
	var before api.MonitorCounts
	return func(line api.MonitorLine) error {
		switch {
		case c.Output == "json":
			return json.NewEncoder(w).Encode(line)
		case line.Packet != nil:
			return observe.Packet(w, *line.Packet)
		case line.Counts != nil:
			text := observe.NotShown(*line.Counts, before)
			before = *line.Counts
			if text != "" {
				_, err := fmt.Fprintln(w, "… "+text)
				return err
			}
		}
		return nil
	}
}

// summary writes who causes packets, each second: on a terminal over the one before.
func summary(c *monitorCmd, s *streams) func(api.MonitorLine) error {
	talkers := observe.Talkers{}
	terminal := isTerminal(s.out)
	return func(line api.MonitorLine) error {
		if line.Packet != nil {
			talkers.Add(*line.Packet)
		}
		if line.Counts == nil {
			return nil
		}
		if c.Output == "json" {
			return json.NewEncoder(s.out).Encode(talkers.Document(*line.Counts))
		}
		if terminal {
			fmt.Fprint(printable.Raw(s.out), "\x1b[H\x1b[J")
		}
		return talkers.Write(observe.Writer{Writer: s.out}, *line.Counts)
	}
}
