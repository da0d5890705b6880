package dut

import (
	"errors"
	"strconv"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
)

// SetConntrackTimeouts are how long the kernel remembers connections, as the policy says.
func SetConntrackTimeouts(h *topo.Host, t overlay.Timeouts) error {
	var errs []error
	for key, d := range map[string]time.Duration{
		"tcp_timeout_syn_sent": t.Opening, "tcp_timeout_syn_recv": t.Opening, "tcp_timeout_established": t.Established,
		"tcp_timeout_fin_wait": t.HalfClosed, "tcp_timeout_close_wait": t.HalfClosed, "tcp_timeout_last_ack": t.HalfClosed,
		"tcp_timeout_time_wait": t.TimeWait, "tcp_timeout_close": t.Closed,
		"udp_timeout": t.UDP, "udp_timeout_stream": t.UDPStream, "icmp_timeout": t.ICMP,
	} {
		errs = append(errs, h.SysctlSet("net/netfilter/nf_conntrack_"+key, strconv.Itoa(int(d/time.Second))))
	}
	return errors.Join(errs...)
}
