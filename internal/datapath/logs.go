package datapath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"
	"unsafe"

	"github.com/cilium/ebpf/ringbuf"

	"github.com/selvage/selvage/internal/overlay"
)

// LogLine is what the firewall wrote about one packet.
type LogLine struct {
	AgeNS            uint64
	Rule             RuleName
	Verdict          overlay.Verdict // LogOnly: what a rule on trial would have decided about
	Reason           string          // why the packet was dropped, "" when it passes
	Port             string
	Direction        overlay.Direction
	Proto            uint8
	Src, Dst         netip.Addr
	SrcPort, DstPort uint16 // DstPort of ICMP is type << 8 | code
	TCPFlags         uint8
	Len              int    // bytes of the packet
	Lost             uint32 // lines of the same core that could not be written before
}

var verdicts = map[bpfVerdict]overlay.Verdict{
	bpfVerdictVERDICT_ALLOW: overlay.Allow, bpfVerdictVERDICT_DROP: overlay.Drop,
	bpfVerdictVERDICT_REJECT: overlay.Reject, bpfVerdictVERDICT_LOG_ONLY: overlay.LogOnly,
}

// Logs calls do for the lines that were written since the last call, most at a time at
// most, and does not wait for others. It must not be called twice at once.
func (d *Datapath) Logs(most int, do func(LogLine)) error {
	if d.cfg.Firewall == nil {
		return nil
	}
	if d.fw.logs == nil {
		logs, err := ringbuf.NewReader(d.objs.Logs)
		if err != nil {
			return fmt.Errorf("read the firewall's log: %w", err)
		}
		logs.SetDeadline(time.Unix(1, 0)) // take what is there
		d.fw.logs = logs
	}
	now, err := monotonicNS()
	if err != nil {
		return err
	}
	var record ringbuf.Record
	for range most {
		err := d.fw.logs.ReadInto(&record)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the firewall's log: %w", err)
		}
		var line bpfLogLine
		if len(record.RawSample) < int(unsafe.Sizeof(line)) {
			return fmt.Errorf("read the firewall's log: a line of %d bytes, not %d", len(record.RawSample), unsafe.Sizeof(line))
		}
		if _, err := binary.Decode(record.RawSample, binary.NativeEndian, &line); err != nil {
			return fmt.Errorf("read the firewall's log: %w", err)
		}
		do(d.logLine(line, now))
	}
	return nil
}

func (d *Datapath) logLine(line bpfLogLine, now uint64) LogLine {
	l := LogLine{
		AgeNS: since(now, line.Ns), Rule: d.ruleName(line.Rule), Verdict: verdicts[line.Verdict],
		Port: d.names.ports[uint32(line.Vport)], Direction: overlay.In, Proto: line.Proto,
		Src: addrOf(line.Src.W), Dst: addrOf(line.Dst.W), SrcPort: line.Sport, DstPort: line.Dport,
		TCPFlags: line.TcpFlags, Len: int(line.Len), Lost: line.Lost,
	}
	if line.Direction == bpfDirectionDIRECTION_OUT {
		l.Direction = overlay.Out
	}
	if line.Reason != 0 && int(line.Reason) < len(d.words.reasons) {
		l.Reason = d.words.reasons[line.Reason].name
	}
	return l
}
