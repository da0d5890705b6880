package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/background"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/trace"
)

const (
	// monitorEvery is how often rings are read, and monitorCounts how often counts are told.
	monitorEvery  = 50 * time.Millisecond
	monitorCounts = time.Second
	// monitorProlong is how often programs are told to go on.
	monitorProlong = 2 * time.Second
	// monitorBatch is how many events are read while the edge may not change.
	monitorBatch = 256
	// monitorQuestion bounds a question, in bytes.
	monitorQuestion = 64 << 10
	defaultSnaplen  = 128
	defaultRate     = 1000
)

// monitorHandler streams what programs tell of packets, a line each. Packets are other people's: whoever may only read does
// not see them.
func monitorHandler(e Edge) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if isChange(w, r) {
			serveMonitor(e, w, r)
		}
	}
}

func serveMonitor(e Edge, w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	_ = rc.EnableFullDuplex() // HTTP/2 has it anyway
	_ = rc.SetReadDeadline(time.Time{})
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, monitorQuestion))
	var q api.MonitorQuery
	if err := body.Decode(&q); err != nil {
		reply(w, nil, api.BadRequest{Err: fmt.Errorf("the question: %w", err)})
		return
	}
	m := &monitoring{edge: e, query: q, interfaces: map[int]string{}}
	if err := m.start(); err != nil {
		reply(w, nil, err)
		return
	}
	defer m.stop()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() { // ends with the request's body
		defer cancel()
		_, _ = io.Copy(io.Discard, r.Body)
	}()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	_ = rc.Flush()
	m.out, m.flush = json.NewEncoder(w), rc.Flush
	if err := m.run(ctx); err != nil && r.Context().Err() == nil {
		_ = m.out.Encode(api.MonitorLine{Error: err.Error()})
	}
}

// monitoring is one client that watches packets.
type monitoring struct {
	edge       Edge
	query      api.MonitorQuery
	session    MonitorSession
	tunnels    map[uint16]overlay.Encapsulation
	texts      map[string]string // of reasons
	devmap     uint64            // packets that devices refused before
	interfaces map[int]string
	out        *json.Encoder
	flush      func() error

	shown, limited uint64
	refused        uint64 // the packet above the rate that was seen last
	tokens         float64
	filled         time.Time
}

func (m *monitoring) start() error {
	o, err := m.options()
	if err != nil {
		return api.BadRequest{Err: err}
	}
	return m.edge.ReadInLoop("monitor", func(e *State) error {
		if e.DataPath.Monitors == nil {
			return errors.New("this data path tells nothing of packets")
		}
		if m.query.Port != "" {
			if o.Filter.Port, o.Filter.Trunk, err = monitoredPort(e, m.query.Port); err != nil {
				return api.BadRequest{Err: err}
			}
		}
		m.tunnels, m.texts = map[uint16]overlay.Encapsulation{}, map[string]string{}
		for _, s := range plan.Segments(e.Config) {
			m.tunnels[s.Tunnel.UDPPort] = s.Tunnel.Encapsulation
		}
		drops, err := e.DataPath.Drops.Drops()
		if err != nil {
			return err
		}
		for _, d := range drops {
			m.texts[d.Reason] = d.Description
		}
		m.devmap = refusedByDevices(drops)
		m.nameInterfaces()
		if m.session, err = e.DataPath.Monitors.StartMonitor(o); err != nil {
			return api.BadRequest{Err: err}
		}
		return nil
	})
}

// nameInterfaces must be called in the network namespace of the edge.
func (m *monitoring) nameInterfaces() {
	list, _ := net.Interfaces() // without names there are numbers
	for _, dev := range list {
		m.interfaces[dev.Index] = dev.Name
	}
}

// monitoredPort is a port by its name, or one of a trunk's VLANs for all of them.
func monitoredPort(e *State, name string) (port string, trunk bool, err error) {
	all := plan.Attachments(e.Config)
	if slices.ContainsFunc(all, func(a plan.Attachment) bool { return a.Name == name && a.Trunk == "" }) {
		return name, false, nil
	}
	if i := slices.IndexFunc(all, func(a plan.Attachment) bool { return a.Trunk == name }); i >= 0 {
		return all[i].Name, true, nil
	}
	if slices.ContainsFunc(all, func(a plan.Attachment) bool { return a.Name == name }) {
		return name, false, nil
	}
	return "", false, fmt.Errorf("there is no port %q: selvage ports lists them", name)
}

// options checks the question.
func (m *monitoring) options() (datapath.MonitorOptions, error) {
	q := &m.query
	f, err := trace.ParseFilter(q.Filter)
	if err != nil {
		return datapath.MonitorOptions{}, err
	}
	if q.Rate == 0 {
		q.Rate = defaultRate
	}
	if q.Snaplen == 0 {
		q.Snaplen = defaultSnaplen
	}
	return datapath.MonitorOptions{
		Drops: q.Drops, Forwarded: q.Forwarded, Sample: q.Sample, Originals: q.Originals || q.Forwarded && !q.Leaving, Leaving: q.Leaving,
		Snaplen: q.Snaplen, Rate: q.Rate, RingBytes: ringBytes(q.Rate, q.Snaplen),
		Filter: datapath.MonitorFilter{Reasons: q.Reasons, Segment: q.Segment, Remote: q.Remote, Packet: datapath.PacketFilter(f)},
	}, checkMonitor(*q)
}

// checkMonitor refuses what nobody can have.
func checkMonitor(q api.MonitorQuery) (err error) {
	switch {
	case q.Rate < 1 || q.Rate > api.MostMonitorRate:
		err = fmt.Errorf("rate: %d is not 1 … %d packets a second", q.Rate, api.MostMonitorRate)
	case q.Snaplen < 14 || q.Snaplen > api.MostMonitorSnaplen:
		err = fmt.Errorf("snaplen: %d is not 14 … %d bytes", q.Snaplen, api.MostMonitorSnaplen)
	case q.Sample < 0 || q.Count < 0 || q.Duration < 0:
		err = errors.New("sample, count and duration are not negative")
	case !q.Drops && !q.Forwarded:
		err = errors.New("nothing is wanted: neither drops nor forwarded packets")
	case len(q.Reasons) > 0 && !q.Drops:
		err = errors.New("forwarded packets have no reason")
	}
	return err
}

// ringBytes is room for what comes while the ring is not read, within bounds.
func ringBytes(rate, snaplen int) int {
	const least, most, head = 64 << 10, 8 << 20, 256
	want := min(max(rate/4*(snaplen+head), least), most)
	return 1 << bits.Len(uint(want-1))
}

func (m *monitoring) stop() {
	if err := m.session.Stop(); err != nil && m.out != nil {
		_ = m.out.Encode(api.MonitorLine{Error: err.Error()})
	}
}

// run tells of packets until ctx ends or there are enough, and then what is left.
func (m *monitoring) run(ctx context.Context) error {
	if m.query.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.query.Duration)
		defer cancel()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer background.Every(ctx, monitorProlong, func() { // beside a client that is slow
		if err := m.session.Prolong(); err != nil {
			cancel(err)
		}
	})()
	tick := time.NewTicker(monitorEvery)
	defer tick.Stop()
	told := time.Now()
	for ctx.Err() == nil && !m.enough() {
		if err := m.tell(); err != nil {
			return err
		}
		if time.Since(told) >= monitorCounts {
			told = time.Now()
			if err := m.tellCounts(false); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if err := m.session.Quiesce(); err != nil {
		return err
	}
	if err := m.tell(); err != nil {
		return err
	}
	return m.tellCounts(true)
}

func (m *monitoring) enough() bool { return m.query.Count > 0 && m.shown >= uint64(m.query.Count) }

// tell writes what there is. The client is waited for while nothing of the edge is held.
func (m *monitoring) tell() error {
	for more, wrote := true, false; more; {
		var lines []api.MonitorLine
		err := m.edge.Read("monitor", func(*State) (err error) {
			more, err = m.session.Events(monitorBatch, func(e datapath.PacketEvent) {
				if m.admits(e) {
					lines = append(lines, api.MonitorLine{Packet: m.info(e)})
				}
			})
			return err
		})
		if err != nil {
			return err
		}
		for _, line := range lines {
			wrote = true
			if err := m.out.Encode(line); err != nil {
				return err
			}
		}
		if !more && wrote {
			return m.flush()
		}
	}
	return nil
}

// admits counts a packet, and holds the cores together to the rate.
func (m *monitoring) admits(e datapath.PacketEvent) bool {
	if !e.First {
		return e.Packet != m.refused
	}
	now := time.Now()
	rate := float64(m.query.Rate)
	if m.filled.IsZero() {
		m.tokens = rate
	} else {
		m.tokens = min(m.tokens+now.Sub(m.filled).Seconds()*rate, rate)
	}
	m.filled = now
	if m.tokens < 1 || m.enough() {
		m.refused = e.Packet
		m.limited++
		return false
	}
	m.tokens--
	m.shown++
	return true
}

// refusedByDevices is how many packets were dropped after an XDP redirect, which no program sees.
func refusedByDevices(drops []datapath.Drop) uint64 {
	for _, d := range drops {
		if d.Reason == devmapDrop {
			return d.Packets
		}
	}
	return 0
}

const devmapDrop = "devmap-drop"

// counts are those of now.
func (m *monitoring) counts() (c api.MonitorCounts, err error) {
	seen, err := m.session.Counts()
	if err != nil {
		return c, err
	}
	c = api.MonitorCounts{
		Shown: m.shown, SampledOut: seen.SampledOut, Limited: seen.Limited + m.limited, Lost: seen.Lost, Cut: seen.Cut, Reasons: map[string]uint64{},
	}
	for reason, packets := range seen.Matched {
		c.Matched += packets
		if reason != "" {
			c.Reasons[reason] = packets
		}
	}
	if m.hearsDevices() {
		err = m.edge.Read("monitor", func(e *State) error {
			drops, err := e.DataPath.Drops.Drops()
			if err != nil {
				return err
			}
			c.Unheard = refusedByDevices(drops) - m.devmap - c.Reasons[devmapDrop]
			return nil
		})
	}
	if c.Unheard > 0 {
		c.Reasons[devmapDrop] += c.Unheard
		c.Matched += c.Unheard
	}
	c.NotShown = c.SampledOut + c.Limited + c.Lost + c.Unheard
	return c, err
}

// hearsDevices reports whether packets that devices refused, of which nothing else is known, are wanted.
func (m *monitoring) hearsDevices() bool {
	q := m.query
	return q.Drops && q.Port == "" && q.Segment == "" && !q.Remote.IsValid() && q.Filter == "" &&
		(len(q.Reasons) == 0 || slices.Contains(q.Reasons, devmapDrop))
}

func (m *monitoring) tellCounts(final bool) error {
	c, err := m.counts()
	if err != nil {
		return err
	}
	c.Final = final
	if err := m.out.Encode(api.MonitorLine{Counts: &c}); err != nil {
		return err
	}
	return m.flush()
}

// info is an event as the API has it.
func (m *monitoring) info(e datapath.PacketEvent) *api.PacketInfo {
	p := &api.PacketInfo{
		Time: time.Now().Add(-time.Duration(e.AgeNS)), ID: e.Packet, Point: string(e.Point), Hook: "tc", Interface: m.interfaceName(e.Ifindex),
		Reason: e.Reason, Description: m.texts[e.Reason], Port: e.Port, VNI: e.VNI, Segment: e.Segment, RulePort: e.RulePort,
		Length: e.Len, GSOSize: e.GSOSize, InnerOffset: e.Inner, Headers: m.headers(e),
		Source: trace.Source(e.Bytes[min(e.Inner, len(e.Bytes)):]),
	}
	if e.XDP {
		p.Hook = "xdp"
	}
	if e.Remote.IsValid() {
		p.Remote = e.Remote.String()
	}
	if e.Origin.IsValid() && e.Origin != e.Remote {
		p.Outer = e.Origin.String()
	}
	if e.Rule.Name != "" {
		p.Rule = e.Rule.Section + "/" + e.Rule.Name
	}
	if e.Decision.Action != "" {
		p.Decision = decisionInfo(e.Decision)
	}
	if m.query.Bytes {
		p.Bytes = e.Bytes
	}
	return p
}

func decisionInfo(d datapath.MonitorDecision) *api.MonitorDecision {
	info := &api.MonitorDecision{Action: d.Action, Port: d.Port, Segment: d.Segment, Routed: d.Routed, Cached: d.Cached, Slow: d.Slow}
	if d.Remote.IsValid() {
		info.Remote = d.Remote.String()
	}
	if t := d.Translated; t != nil {
		info.Translation = fmt.Sprintf("%s > %s", endText(t.Src), endText(t.Dst))
	}
	return info
}

func endText(a netip.AddrPort) string {
	if a.Port() == 0 {
		return a.Addr().String()
	}
	return a.String()
}

// headers are a packet's, in words.
func (m *monitoring) headers(e datapath.PacketEvent) []string {
	return trace.Describe(e.Bytes, func(port uint16) overlay.Encapsulation { return m.tunnels[port] })
}

func (m *monitoring) interfaceName(ifindex int) string {
	if name, known := m.interfaces[ifindex]; known {
		return name
	}
	return strconv.Itoa(ifindex)
}
