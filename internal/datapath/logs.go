package datapath

import (
	"net/netip"

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
	Lost             uint32 // lines of the same port that could not be written before
}

var verdicts = map[bpfVerdict]overlay.Verdict{
	bpfVerdictVERDICT_ALLOW: overlay.Allow, bpfVerdictVERDICT_DROP: overlay.Drop,
	bpfVerdictVERDICT_REJECT: overlay.Reject, bpfVerdictVERDICT_LOG_ONLY: overlay.LogOnly,
}

// Logs calls do for the lines that were written since the last call, most at a time at
// most, and does not wait for others. It must not be called twice at once.
func (fw *Firewall) Logs(most int, do func(LogLine)) error {
	if fw.prog.cfg.Firewall == nil {
		return nil
	}
	return fw.logs.take(&fw.prog.kernel, "the firewall's log", fw.maps.Logs, most, func(line *bpfLogLine, now uint64) { do(fw.logLine(line, now)) })
}

func (fw *Firewall) logLine(line *bpfLogLine, now uint64) LogLine {
	l := LogLine{
		AgeNS: since(now, line.Ns), Rule: fw.ruleName(line.Rule), Verdict: verdicts[line.Verdict],
		Port: fw.numbers.names.ports[uint32(line.Vport)], Direction: overlay.In, Proto: line.Proto,
		Src: addrOf(line.Src.W), Dst: addrOf(line.Dst.W), SrcPort: line.Sport, DstPort: line.Dport,
		TCPFlags: line.TcpFlags, Len: int(line.Len), Lost: line.Lost,
	}
	if line.Direction == bpfDirectionDIRECTION_OUT {
		l.Direction = overlay.Out
	}
	if line.Reason != 0 && int(line.Reason) < len(fw.prog.words.reasons) {
		l.Reason = fw.prog.words.reasons[line.Reason].name
	}
	return l
}
