package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/edge"
)

// connectionFilter is the flags that choose connections of the firewall, and sessions of NAT.
type connectionFilter struct {
	Proto string `placeholder:"PROTOCOL" help:"Only tcp, udp, icmp, icmpv6, sctp or a protocol number."`
	Addr  string `placeholder:"ADDRESS" help:"Only with this address, or one of this prefix, at ${ends} end."`
	State string `placeholder:"STATE" help:"Only in this state: opening, established, half-closed, time-wait, closed, unreplied, replied or icmp."`
}

// question completes q, whose other fields are set, and checks it.
func (f connectionFilter) question(q edge.ConnectionQuery, kinds []string) (edge.ConnectionQuery, error) {
	q.Proto, q.State = f.Proto, f.State
	switch {
	case q.Limit < 0:
		return q, fmt.Errorf("--limit: %d is negative", q.Limit)
	case q.Top != "" && !slices.Contains(kinds, q.Top):
		return q, fmt.Errorf("--top: %q is none of %s", q.Top, strings.Join(kinds, ", "))
	case f.Addr == "":
		return q, nil
	}
	var err error
	if q.Addr, err = edge.ParsePrefix(f.Addr); err != nil {
		return q, fmt.Errorf("--addr: %w", err)
	}
	return q, nil
}
