package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/observe"
	"github.com/selvage/selvage/internal/pcapng"
	"github.com/selvage/selvage/internal/printable"
	"github.com/selvage/selvage/internal/program"
)

type captureCmd struct {
	target
	packetFilter
	Write   string   `short:"w" required:"" placeholder:"FILE" help:"Write the packets to this file; - is standard output, for tshark -r -."`
	Count   int      `short:"c" placeholder:"N" help:"End after N packets."`
	Snaplen int      `short:"s" default:"1600" placeholder:"BYTES" help:"Write at most this many bytes of each packet, up to 9216."`
	Point   []string `sep:"," enum:"ingress,decap,egress" default:"ingress,decap,egress" placeholder:"POINT" help:"Where to capture: ingress (as it came), decap (the inner frame of a tunnel packet), egress (as it leaves). Default: all."`
	Dropped bool     `help:"Only dropped packets; --reason implies that."`
	Rate    int      `default:"10000" placeholder:"N" help:"Write at most N packets a second."`
}

// Help says what kong's flags do not.
func (*captureCmd) Help() string {
	return filterHelp + " Each packet has a comment: its drop reason, firewall rule and decision. Capture points are interfaces of the file; " +
		"the same packet has the same packet identifier at all of them. Of a large segment (GSO) there is one packet, cut to --snaplen."
}

// Run captures packets until Ctrl-C, the count or the duration.
func (c *captureCmd) Run(ctx context.Context, s *streams) (err error) {
	q, err := c.packetFilter.question(c.Count, c.Rate, c.Snaplen)
	if err != nil {
		return err
	}
	q.Originals = slices.Contains(c.Point, "ingress") || slices.Contains(c.Point, "decap")
	q.Leaving = slices.Contains(c.Point, "egress")
	q.Drops, q.Forwarded, q.Bytes = q.Originals, !c.Dropped && len(c.Reason) == 0, true
	if !q.Drops && !q.Forwarded {
		return usageError{errors.New("--point egress: dropped packets do not leave; capture them at ingress")}
	}
	if c.Write == "-" && isTerminal(s.out) {
		return usageError{errors.New("-w -: a terminal shows no capture; pipe it to tshark -r - or name a file")}
	}
	client, err := c.dial()
	if err != nil {
		return err
	}
	out := printable.Raw(s.out)
	if c.Write != "-" {
		file, err := os.OpenFile(c.Write, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) // packets are other people's
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		out = file
	}
	w, err := newCapture(out, c.Point, uint32(c.Snaplen))
	if err != nil {
		return err
	}
	counts, err := client.Monitor(ctx, q, w.line)
	if err := errors.Join(err, w.end(counts)); err != nil {
		return err
	}
	fmt.Fprintf(s.err, "%d records written; %s\n", w.written, observe.MonitorTotals(counts))
	return nil
}

// capture writes what an edge tells to a file.
type capture struct {
	file     *pcapng.Writer
	points   []string
	seen     []uint64 // records of each
	written  uint64
	last     api.PacketInfo
	counts   api.MonitorCounts
	notShown uint64 // that no packet has told
}

var pointTexts = map[string]string{
	"ingress": "packets as they came", "decap": "frames of tunnel packets, without tunnel headers", "egress": "packets as they leave",
}

func newCapture(w io.Writer, points []string, snaplen uint32) (*capture, error) {
	var list []pcapng.Interface
	for _, p := range points {
		list = append(list, pcapng.Interface{Name: p, Description: pointTexts[p], Snaplen: snaplen})
	}
	file, err := pcapng.New(w, program.Line(program.Selvage), list)
	return &capture{file: file, points: points, seen: make([]uint64, len(points))}, err
}

func (c *capture) line(line api.MonitorLine) error {
	if line.Counts != nil {
		c.notShown += line.Counts.NotShown - c.counts.NotShown
		c.counts = *line.Counts
	}
	if line.Packet == nil {
		return nil
	}
	c.last = *line.Packet
	return c.packet(*line.Packet)
}

// packet writes a packet at each point where it is.
func (c *capture) packet(p api.PacketInfo) error {
	record := pcapng.Packet{
		Time: p.Time, Length: p.Length, Bytes: p.Bytes, Comment: observe.PacketComment(p), Direction: pcapng.Inbound, ID: p.ID, Hook: pcapng.TC,
	}
	if p.Hook == "xdp" {
		record.Hook = pcapng.XDP
	}
	record.Verdict = verdictOf(p)
	if p.Point == "egress" || p.Point == "copy" {
		record.Direction = pcapng.Outbound
		return c.write("egress", record)
	}
	if err := c.write("ingress", record); err != nil || p.InnerOffset == 0 {
		return err
	}
	record.Bytes = record.Bytes[min(p.InnerOffset, len(record.Bytes)):]
	record.Length -= p.InnerOffset
	return c.write("decap", record)
}

// verdictOf is what the program returned, as the kernel numbers that.
func verdictOf(p api.PacketInfo) int64 {
	const tcDrop, tcRedirect, xdpDrop, xdpRedirect = 2, 7, 1, 4
	switch {
	case p.Hook == "xdp" && p.Reason != "":
		return xdpDrop
	case p.Hook == "xdp":
		return xdpRedirect
	case p.Reason != "":
		return tcDrop
	}
	return tcRedirect
}

func (c *capture) write(point string, p pcapng.Packet) error {
	p.Interface = slices.Index(c.points, point)
	if p.Interface < 0 {
		return nil
	}
	p.Dropped, c.notShown = c.notShown, 0
	c.seen[p.Interface]++
	c.written++
	return c.file.Write(p)
}

// end tells how many packets are not in the file.
func (c *capture) end(counts api.MonitorCounts) error {
	var errs []error
	for i := range c.points {
		errs = append(errs, c.file.Statistics(i, c.last.Time, c.seen[i]+counts.NotShown, counts.NotShown, observe.MonitorTotals(counts)))
	}
	return errors.Join(errs...)
}
