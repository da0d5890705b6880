package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"time"
)

// MonitorQuery is what is wanted of packets. It is the first document of the request's body; when the body ends, the edge
// tells what is left and the final counts.
type MonitorQuery struct {
	Drops     bool          `json:"drops,omitempty"`
	Forwarded bool          `json:"forwarded,omitempty"`
	Sample    int           `json:"sample,omitempty"` // of forwarded packets one of so many
	Reasons   []string      `json:"reasons,omitempty"`
	Port      string        `json:"port,omitempty"`
	Segment   string        `json:"segment,omitempty"`
	Remote    netip.Addr    `json:"remote,omitzero"`
	Filter    string        `json:"filter,omitempty"` // in the words of trace.FilterGrammar
	Originals bool          `json:"originals,omitempty"`
	Leaving   bool          `json:"leaving,omitempty"`
	Bytes     bool          `json:"bytes,omitempty"` // the packets' own, not only in words
	Snaplen   int           `json:"snaplen,omitempty"`
	Rate      int           `json:"rate,omitempty"`     // packets a second
	Count     int           `json:"count,omitempty"`    // 0: no end
	Duration  time.Duration `json:"duration,omitempty"` // 0: no end
}

// Bounds of a MonitorQuery.
const (
	MostMonitorRate    = 1_000_000
	MostMonitorSnaplen = 9216
)

// MonitorLine is a line of the answer: one of its fields is set.
type MonitorLine struct {
	Packet *PacketInfo    `json:"packet,omitempty"`
	Counts *MonitorCounts `json:"counts,omitempty"`
	Error  string         `json:"error,omitempty"` // why it ends
}

// PacketInfo is a packet at one point of the data path.
type PacketInfo struct {
	Time        time.Time        `json:"time"`
	ID          uint64           `json:"id"`    // the same at all points
	Point       string           `json:"point"` // ingress, drop, egress or copy
	Hook        string           `json:"hook"`  // tc or xdp
	Interface   string           `json:"interface,omitempty"`
	Reason      string           `json:"reason,omitempty"` // why it was dropped
	Description string           `json:"description,omitempty"`
	Port        string           `json:"port,omitempty"`
	Remote      string           `json:"remote,omitempty"`
	Outer       string           `json:"outer_source,omitempty"` // of a packet from a tunnel, though no remote has that address
	VNI         uint32           `json:"vni,omitempty"`
	Segment     string           `json:"segment,omitempty"`
	Source      string           `json:"source,omitempty"` // inner IP address, else MAC address
	Rule        string           `json:"rule,omitempty"`   // SECTION/NAME, or default/EDGE: the last one that was asked
	RulePort    string           `json:"rule_port,omitempty"`
	Decision    *MonitorDecision `json:"decision,omitempty"`
	Length      int              `json:"length"`
	GSOSize     int              `json:"gso_size,omitempty"`     // of the packets that a large segment will be cut into
	InnerOffset int              `json:"inner_offset,omitempty"` // where the frame in the tunnel packet begins
	Headers     []string         `json:"headers"`                // in words, the outermost first
	Bytes       []byte           `json:"bytes,omitempty"`
}

// MonitorDecision is what was decided about a packet.
type MonitorDecision struct {
	Action  string `json:"action"`
	Port    string `json:"port,omitempty"` // egress
	Remote  string `json:"remote,omitempty"`
	Segment string `json:"segment,omitempty"`
	Routed  bool   `json:"routed,omitempty"`
	Cached  bool   `json:"cached"`         // from the flow cache
	Slow    string `json:"slow,omitempty"` // why each packet of the flow takes the slow path
	// Translation is what NAT makes of the source and destination.
	Translation string `json:"translation,omitempty"`
}

// MonitorCounts are of packets since the beginning. Matched are all that the filter chooses: Shown and NotShown together.
type MonitorCounts struct {
	Matched uint64 `json:"matched"`
	Shown   uint64 `json:"shown"`
	// NotShown is the sum of what follows.
	NotShown uint64 `json:"not_shown"`
	// SampledOut are forwarded packets beside the samples.
	SampledOut uint64 `json:"sampled_out"`
	Limited    uint64 `json:"limited"`  // above the rate
	Lost       uint64 `json:"lost"`     // no room in the ring buffer: the asker was too slow
	Unheard    uint64 `json:"no_bytes"` // dropped by a device after an XDP redirect: there is no packet to show
	// Cut are further records about packets that were shown.
	Cut     uint64            `json:"cut"`
	Reasons map[string]uint64 `json:"reasons"` // matched drops by reason
	Final   bool              `json:"final,omitempty"`
}

// ErrEnded ends a Monitor from within.
var ErrEnded = errors.New("it is enough")

// Monitor has the edge tell of packets, until the query's count or duration, or until ctx ends: then the last counts still
// come. It returns the final counts, or those that came last. do may return ErrEnded.
func (c *Client) Monitor(ctx context.Context, q MonitorQuery, do func(MonitorLine) error) (counts MonitorCounts, err error) {
	body, end := io.Pipe()
	go func() {
		if err := json.NewEncoder(end).Encode(q); err != nil {
			return
		}
	}()
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		end.Close()
		time.AfterFunc(clientTimeout/10, cancel) // an edge that does not answer is not waited for
	})
	defer stop()
	resp, err := c.do(whole, http.MethodPost, "/v1/monitor", body)
	if err != nil {
		end.Close()
		return counts, err
	}
	defer resp.Body.Close()
	defer end.Close()
	lines := json.NewDecoder(resp.Body)
	for {
		var line MonitorLine
		if err := lines.Decode(&line); err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the answer ends without its counts")
			}
			return counts, fmt.Errorf("edge %s: %w", c.name, err)
		}
		if line.Counts != nil {
			counts = *line.Counts
		}
		if line.Error != "" {
			return counts, fmt.Errorf("edge %s: %s", c.name, line.Error)
		}
		switch err := do(line); {
		case errors.Is(err, ErrEnded):
			end.Close()
		case err != nil:
			return counts, err
		}
		if counts.Final {
			return counts, nil
		}
	}
}
