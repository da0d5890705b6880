package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Role is one of an instrument's two processes, for who starts them on machines of their own
// (lab/agent) rather than in hosts of lab/topo. What they print is read by ReadBulk, ReadRR,
// ReadCRR, ReadUDP, ReadSize and ReadPeers.
type Role struct {
	Instrument string     `json:"instrument"` // one of Roles
	Server     bool       `json:"server"`
	Addr       netip.Addr `json:"addr"` // the server's
	Port       int        `json:"port"`

	Duration time.Duration `json:"duration"`
	Warmup   time.Duration `json:"warmup,omitempty"`  // rr and crr, of the client
	Reverse  bool          `json:"reverse,omitempty"` // bulk: from the server to the client
	Streams  int           `json:"streams,omitempty"` // bulk
	Size     int           `json:"size,omitempty"`    // bytes of a request and its response, of a datagram, of a write (bulk; 0 is 128 KiB), or of the largest packet to try
	Flows    int           `json:"flows,omitempty"`   // size and peer: source ports
	Rate     int64         `json:"rate,omitempty"`    // most bits a second in frames; 0 is no limit
}

// Instruments that Role has.
const (
	RoleBulk = "bulk"
	RoleRR   = "rr"
	RoleCRR  = "crr"
	RoleUDP  = "udp"
	RoleSize = "size" // the largest packet that arrives at the server
	RolePeer = "peer" // the address that the server sees
)

// bulkInterval is that of a transfer's series.
const bulkInterval = 100 * time.Millisecond

// frameBytes are those of a UDP datagram's Ethernet frame beside its payload.
const frameBytes = 14 + 40 + 8

// payloadShare is the least share of payload in a full frame: of IPv6's least MTU, with timestamps.
const payloadShare = (1280.0 - 40 - 32) / (1280 + 14)

// Network is the protocol of the server's port.
func (r Role) Network() string {
	if r.Instrument == RoleUDP || r.Instrument == RoleSize {
		return "udp"
	}
	return "tcp"
}

// Sends says whether the process sends as fast as it may.
func (r Role) Sends() bool {
	switch r.Instrument {
	case RoleBulk:
		return r.Server == r.Reverse
	case RoleUDP:
		return !r.Server
	}
	return false
}

// Argv are the arguments for this program.
func (r Role) Argv() ([]string, error) {
	if !r.Addr.IsValid() || r.Port < 1 || r.Port > 65535 {
		return nil, fmt.Errorf("instrument %s: %s port %d is no endpoint", r.Instrument, r.Addr, r.Port)
	}
	argv := map[string]func() []string{RoleBulk: r.bulk, RoleRR: r.rr, RoleCRR: r.crr, RoleUDP: r.udp, RoleSize: r.largest, RolePeer: r.peer}[r.Instrument]
	if argv == nil {
		return nil, fmt.Errorf("there is no instrument %q", r.Instrument)
	}
	return append(argv(), flags("addr", r.Addr, "port", r.Port)...), nil
}

func (r Role) bulk() []string {
	argv := []string{"lab-bulk-sink"}
	if r.Sends() {
		argv = []string{"lab-bulk-source", fmt.Sprintf("--rate=%d", int64(payloadShare*float64(r.Rate)))}
		if r.Size > 0 {
			argv = append(argv, flags("write", r.Size)...)
		}
	}
	return append(argv, flags("duration", r.Duration, "interval", bulkInterval, "streams", max(1, r.Streams), "reverse", r.Reverse)...)
}

func (r Role) rr() []string {
	sizes := flags("request", max(1, r.Size), "response", max(1, r.Size))
	if r.Server {
		return append([]string{"lab-rr-server"}, sizes...)
	}
	return append(append([]string{"lab-rr-client"}, sizes...), flags("duration", r.Duration, "warmup", r.Warmup)...)
}

func (r Role) crr() []string {
	if r.Server {
		return []string{"lab-crr-server"}
	}
	return append([]string{"lab-crr-client"}, flags("duration", r.Duration, "warmup", r.Warmup)...)
}

func (r Role) udp() []string {
	if r.Server {
		return append([]string{"lab-udp-receiver"}, flags("duration", r.Duration)...)
	}
	size, datagrams := max(1, r.Size), int64(0)
	if r.Rate > 0 {
		datagrams = max(1, r.Rate/8/int64(size+frameBytes))
	}
	return append([]string{"lab-udp-sender"}, flags("duration", r.Duration, "payload", size, "rate", datagrams)...)
}

func (r Role) largest() []string {
	if r.Server {
		return []string{"lab-size-echo"}
	}
	return append([]string{"lab-size-probe"}, flags("most", r.Size, "flows", max(1, r.Flows))...)
}

// Env marks the process as an instrument, for RunInstrument.
func (r Role) Env() []string { return []string{instrumentEnv + "=1", "GODEBUG=asyncpreemptoff=1"} }

// ReadBulk is the transfer that a source and a sink printed.
func ReadBulk(r Role, source, sink json.RawMessage) (*Bulk, error) {
	var sent, received bulkReport
	if err := readReport("bulk source", source, &sent); err != nil {
		return nil, err
	}
	if err := readReport("bulk sink", sink, &received); err != nil {
		return nil, err
	}
	if len(received.Bytes) == 0 {
		return nil, errors.New("bulk sink: its report has no interval")
	}
	if err := judge("bulk transfer", r.Duration, slices.Concat(sent.Bytes, received.Bytes)...); err != nil {
		return nil, err
	}
	return &Bulk{
		Options: BulkOptions{Duration: r.Duration, Interval: bulkInterval, Streams: max(1, r.Streams), Port: r.Port},
		Written: sent.Bytes, Received: received.Bytes, Sockets: sent.Sockets,
	}, nil
}

// Steady is what was received after the first part of the transfer, in Gbit/s.
func (b *Bulk) Steady(omit time.Duration) float64 {
	from := min(int(omit/b.Options.Interval), len(b.Received)-1)
	rest := b.Received[from:]
	return float64(total(rest)) * 8 / 1e9 / (time.Duration(len(rest)) * b.Options.Interval).Seconds()
}

// ReadRR is the run that a client printed.
func ReadRR(r Role, client json.RawMessage) (*RR, error) {
	var report rrReport
	if err := readReport("request/response", client, &report); err != nil {
		return nil, err
	}
	return report.run(RROptions{Request: max(1, r.Size), Response: max(1, r.Size), Duration: r.Duration}, CPU{})
}

// ReadCRR is the run that a client printed.
func ReadCRR(r Role, client json.RawMessage) (*CRR, error) {
	var report crrReport
	if err := readReport("connections", client, &report); err != nil {
		return nil, err
	}
	return report.run(CRROptions{AtOnce: 1, Duration: r.Duration}, CPU{})
}

// ReadUDP is the run that a sender and a receiver printed.
func ReadUDP(r Role, sender, receiver json.RawMessage) (*UDP, error) {
	var sent, received udpReport
	if err := readReport("UDP sender", sender, &sent); err != nil {
		return nil, err
	}
	if err := readReport("UDP receiver", receiver, &received); err != nil {
		return nil, err
	}
	return sent.run(received, r.Duration, CPU{})
}

// ReadSize is the search that a client printed.
func ReadSize(client json.RawMessage) (*Size, error) {
	size := &Size{}
	if err := readReport("size probe", client, &size.Flows); err != nil {
		return nil, err
	}
	if len(size.Flows) == 0 {
		return nil, errors.New("size probe: no flow was searched")
	}
	return size, nil
}

func readReport(of string, data json.RawMessage, into any) error {
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("report of %s: %w", of, err)
	}
	return nil
}
