package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/api"
)

// connectionFilter is the flags that choose connections of the firewall, and sessions of NAT.
type connectionFilter struct {
	Proto string     `placeholder:"PROTOCOL" help:"Show only this protocol: tcp, udp, icmp, icmpv6, sctp or a number."`
	Addr  prefixFlag `placeholder:"ADDRESS" help:"Show only those with this ${ends}: an address or a prefix."`
	State string     `placeholder:"STATE" help:"Show only this state: opening, established, half-closed, time-wait, closed, unreplied, replied or icmp."`
}

// question completes q, whose other fields are set, and checks it.
func (f connectionFilter) question(q api.ConnectionQuery, kinds []string) (api.ConnectionQuery, error) {
	q.Proto, q.State, q.Addr = f.Proto, f.State, f.Addr.Prefix
	if q.Top != "" && !slices.Contains(kinds, q.Top) {
		return q, fmt.Errorf("--top: %q is none of %s", q.Top, strings.Join(kinds, ", "))
	}
	return q, checkLimit(q.Limit)
}
