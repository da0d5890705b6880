package measure

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/topo"
)

// Socket is what the kernel says of one TCP connection.
type Socket struct {
	MSS       int     // bytes: the segment size in use towards the peer
	RTT       float64 // µs, smoothed
	Cwnd      int     // segments
	BytesSent int64
	// PathMTU (bytes) and Retransmits (segments) come from TCP_INFO only.
	PathMTU     int
	Retransmits int64
}

// busiestSocket asks ss(8) for the connection of a port that has sent most: not
// iperf3's control connection.
func busiestSocket(ctx context.Context, h *topo.Host, filter string, port int) (Socket, error) {
	out, err := h.Output(ctx, "ss", "-tinH", "state", "established", filter, "=", ":"+strconv.Itoa(port))
	if err != nil {
		return Socket{}, err
	}
	var busiest Socket
	for _, s := range parseSS(string(out)) {
		if s.BytesSent > busiest.BytesSent {
			busiest = s
		}
	}
	if busiest.MSS == 0 {
		return Socket{}, fmt.Errorf("ss in %s: no connection with data on port %d", h.Name, port)
	}
	return busiest, nil
}

// parseSS reads the details of ss -ti, one indented line a connection, whose
// words are "name:value". There is no JSON to ask for in iproute2 6.1.
func parseSS(text string) []Socket {
	var sockets []Socket
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, " ") {
			continue
		}
		var s Socket
		for _, word := range strings.Fields(line) {
			name, value, ok := strings.Cut(word, ":")
			if !ok {
				continue
			}
			switch name {
			case "mss":
				s.MSS, _ = strconv.Atoi(value)
			case "rtt": // smoothed/deviation in milliseconds
				smoothed, _, _ := strings.Cut(value, "/")
				ms, _ := strconv.ParseFloat(smoothed, 64)
				s.RTT = ms * 1e3
			case "cwnd":
				s.Cwnd, _ = strconv.Atoi(value)
			case "bytes_sent":
				s.BytesSent, _ = strconv.ParseInt(value, 10, 64)
			}
		}
		sockets = append(sockets, s)
	}
	return sockets
}
