package observe

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/problem"
)

// Egress writes policies, what their gateways do, addresses, and the last failovers.
func Egress(w Writer, e api.EgressInfo) error {
	if err := egressPolicies(w, e); err != nil {
		return err
	}
	if len(e.Groups) > 0 {
		fmt.Fprintln(w)
		if err := Gateways(w, e); err != nil {
			return err
		}
	}
	parts := []func(Writer, api.EgressInfo) error{egressAddresses, egressSources, replications, refusedConnections, failovers}
	for i, n := range []int{addressCount(e), len(e.Groups), len(e.Replication), len(e.Refused), len(e.Failovers)} {
		if n == 0 {
			continue
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		if err := parts[i](w, e); err != nil {
			return err
		}
	}
	return problems(w, e.Problems)
}

// problems are lines below everything else.
func problems(w Writer, list []problem.Problem) error {
	if len(list) > 0 {
		fmt.Fprintln(w)
	}
	for _, p := range list {
		if err := fill(w, severityLabel[p.Severity], p.Text); err != nil {
			return err
		}
	}
	return nil
}

func egressPolicies(w Writer, e api.EgressInfo) error {
	return table(w, "POLICY ROUTER VNI GATEWAYS UPLINK +ADDRESS-POOLING +MAPPING +PORTS +LIMIT SESSIONS +EXCEPT MATCHES", e.Policies, func(p api.EgressPolicyInfo) []any {
		return []any{
			p.Name, p.Router, positive(int(p.VNI)), p.Gateways, p.Uplink, p.AddressPooling, p.Mapping, fmt.Sprintf("%d-%d", p.Ports.First, p.Ports.Last),
			positive(int(p.Limit)), p.Sessions, list(p.Except), p.Matches,
		}
	})
}

// Gateways writes one line for each gateway of each group, and how a drain goes on.
func Gateways(w Writer, e api.EgressInfo) error {
	type row struct {
		group api.GatewayGroupInfo
		api.GatewayInfo
	}
	var rows []row
	for _, g := range e.Groups {
		for _, m := range g.Members {
			rows = append(rows, row{g, m})
		}
	}
	err := table(w, "GROUP MODE GATEWAY NAME STATE SINCE WHY", rows, func(r row) []any {
		name := r.GatewayInfo.Name
		if r.Self {
			name += " (this edge)"
		}
		return []any{r.group.Name, r.group.Mode, r.Address, name, r.State, clock(r.Since), r.Why}
	})
	d := e.Drain
	if err != nil || d == nil {
		return err
	}
	state := fmt.Sprintf("until %s at the latest", clock(d.Deadline))
	switch {
	case d.Done:
		state = "done: this edge has given its work away"
	case d.Active != nil:
		state += fmt.Sprintf(", %d sessions had packets lately", *d.Active)
	}
	_, err = fmt.Fprintf(w, "\nDrain: asked for at %s, %s\n", clock(d.Asked), state)
	return err
}

// clock is a time to the millisecond, in UTC.
func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

func addressCount(e api.EgressInfo) (n int) {
	for _, p := range e.Policies {
		n += len(p.Addresses)
	}
	return n
}

func egressAddresses(w Writer, e api.EgressInfo) error {
	type row struct {
		policy string
		api.EgressAddressInfo
	}
	var rows []row
	for _, p := range e.Policies {
		for _, a := range p.Addresses {
			rows = append(rows, row{p.Name, a})
		}
	}
	return table(w, "ADDRESS POLICY OWNER GIVEN-BY SESSIONS", rows, func(r row) []any {
		owner := "nobody"
		switch {
		case r.Here:
			owner = "this edge"
		case r.Owner.IsValid():
			owner = r.Owner.String()
		}
		by := addr(r.Server)
		if r.Here && r.Server == r.Owner {
			by = "this edge"
		}
		return []any{r.Address, r.policy, owner, by, r.Sessions}
	})
}

// egressSources is which part of the sources each gateway serves.
func egressSources(w Writer, e api.EgressInfo) error {
	type row struct {
		policy string
		api.EgressSourcesInfo
	}
	var rows []row
	for _, p := range e.Policies {
		for _, s := range p.Sources {
			rows = append(rows, row{p.Name, s})
		}
	}
	return table(w, "POLICY FAMILY SOURCES SERVED-BY", rows, func(r row) []any {
		by := "nobody: their packets are dropped"
		if r.Gateway.IsValid() {
			by = r.Gateway.String()
		}
		return []any{r.policy, r.Family, percent(r.Share), by}
	})
}

func refusedConnections(w Writer, e api.EgressInfo) error {
	return table(w, "REFUSED CONNECTIONS", e.Refused, func(r api.RefusedInfo) []any { return []any{r.Why, count(r.Connections)} })
}

func replications(w Writer, e api.EgressInfo) error {
	return table(w, "REPLICATION STATE SINCE SENT RECEIVED +CONFLICTS +RESYNCS WHY", e.Replication, func(r api.ReplicationInfo) []any {
		state := "down"
		switch {
		case r.Synced:
			state = "synchronised"
		case r.Connected:
			state = "synchronising"
		}
		return []any{
			netip.AddrPortFrom(r.Gateway, r.Port), state, clock(r.Since), count(r.Sent), count(r.Received), count(r.Conflicts), count(r.Resyncs), r.Why,
		}
	})
}

// mostFailovers are shown: the last ones.
const mostFailovers = 10

func failovers(w Writer, e api.EgressInfo) error {
	last := e.Failovers[max(0, len(e.Failovers)-mostFailovers):]
	return table(w, "FAILOVER GROUP GATEWAY CHANGE SEEN WRITTEN ANNOUNCED +ADDRESSES WHY", last, func(f api.Failover) []any {
		announced := ""
		if f.Announced != nil {
			announced = after(f.Seen, *f.Announced)
		}
		return []any{f.Number, f.Group, f.Gateway, f.From + ">" + f.To, clock(f.Seen), after(f.Seen, f.Written), announced, f.Addresses, f.Why}
	})
}

// after is how long after an event something was done.
func after(event, done time.Time) string {
	return fmt.Sprintf("+%.1fms", float64(done.Sub(event).Microseconds())/1000)
}

// NATSessions writes one line for each session.
func NATSessions(w Writer, l api.NATSessionList) error {
	header := "POLICY PROTO INSIDE EGRESS OUTSIDE STATE +VIA +AGE +IDLE +LEFT +ORIG-PACKETS ORIG-BYTES +REPLY-PACKETS REPLY-BYTES NOTES"
	err := table(w, header, l.Sessions, func(b api.NATSessionInfo) []any {
		outside := "any"
		if b.Outside.IsValid() {
			outside = natSessionEnd(b.Outside, b.OutsidePort)
		}
		return []any{
			orGone(b.Policy), b.Proto, natSessionEnd(b.Inside, b.InsidePort), natSessionEnd(b.Egress, b.EgressPort), outside, b.State, addr(b.Via),
			span(b.Age), span(b.Idle), span(b.Left), count(b.OrigPackets), size(b.OrigBytes), count(b.ReplyPackets), size(b.ReplyBytes), natSessionNotes(b),
		}
	})
	if err != nil {
		return err
	}
	return shown(w, l, "sessions")
}

// natSessionEnd is an address with its port or identifier, where there is one.
func natSessionEnd(a netip.Addr, port uint16) string {
	if port == 0 {
		return a.String()
	}
	return netip.AddrPortFrom(a, port).String()
}

func natSessionNotes(b api.NATSessionInfo) string {
	var notes []string
	for _, n := range []struct {
		is   bool
		word string
	}{{b.Mapping, "mapping"}, {b.Forwarded, "from outside"}, {b.Independent, "independent"}, {b.Replica, "replica"}} {
		if n.is {
			notes = append(notes, n.word)
		}
	}
	return strings.Join(notes, ", ")
}

// Pressures writes how many ports are in use for each destination.
func Pressures(w Writer, list []api.PortUsageInfo) error {
	return table(w, "EGRESS PROTO OUTSIDE POLICY USED PORTS FILLED", list, func(p api.PortUsageInfo) []any {
		return []any{p.Egress, p.Proto, natSessionEnd(p.Outside, p.OutsidePort), p.Policy, p.Used, positive(p.Size), share(uint64(p.Used), uint64(p.Size))}
	})
}

// NAT writes how the tables of translation do.
func NAT(w Writer, n api.NATInfo) error {
	var lines fields
	lines.add("NAT", "%d sessions, %d of them replicas, and %d ports held for all peers", n.Sessions, n.Replicas, n.Mappings)
	lines.add("Swept", "%s", clock(n.SweptAt))
	if n.LogLost > 0 {
		lines.add("Log", "%s lines not written because of their rate", count(n.LogLost))
	}
	lines.list("Alarm", problem.Texts(n.Problems))
	if err := lines.write(w); err != nil {
		return err
	}
	if err := tablesAndStates(w, n.Tables, "SESSIONS", n.States); err != nil {
		return err
	}
	return tableEvents(w, n.Events)
}
