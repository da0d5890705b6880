package bgp

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// mostClaims bounds how many ports have a problem of their own.
const mostClaims = 16

// claim is that hosts at a port say they have addresses outside the networks of their segment, to which no route leads.
type claim struct {
	segment string
	mac     overlay.MAC
	addr    netip.Addr // one of them
	owner   string     // what has that address here, "" where that is not known
	more    int        // other addresses
}

// claims are those of ports.
type claims map[string]claim

// add notes the claim of a host, if it is one. An address of others is the one that is named; else that of was, if it is claimed still.
func (c claims) add(t *evpn.Table, h *Host, was claim) {
	foreign, owner := t.Foreign(h.Segment, h.Addr)
	if !foreign || h.ByBGP || h.Static || h.Port == "" {
		return
	}
	now := claim{segment: h.Segment, mac: h.MAC, addr: h.Addr, owner: owner}
	if other, known := c[h.Port]; known {
		now.more = other.more + 1
		if preferred(other, now, was) {
			other.more = now.more
			now = other
		}
	}
	c[h.Port] = now
}

// preferred reports whether a is named rather than b.
func preferred(a, b, was claim) bool {
	if (a.owner != "") != (b.owner != "") {
		return a.owner != ""
	}
	return b.addr != was.addr
}

// claimWatch looks what hosts at ports claim, and logs it.
type claimWatch struct{ state *State }

// look replaces the claims by those of all hosts at ports.
func (w claimWatch) look(list []Host) {
	v, now := w.state, make(claims)
	v.mu.Lock()
	was := v.claims
	for i := range list {
		if h := &list[i]; h.Addr.IsValid() {
			now.add(v.table, h, was[h.Port])
		}
	}
	v.claims = now
	v.mu.Unlock()
	w.log(was, now)
}

// came notes those of hosts that came, at ports that had none.
func (w claimWatch) came(list []Host) {
	v := w.state
	v.mu.Lock()
	was, fresh := v.claims, make(claims)
	for i := range list {
		if h := &list[i]; h.Addr.IsValid() && was[h.Port] == (claim{}) {
			fresh.add(v.table, h, claim{})
		}
	}
	if len(fresh) > 0 {
		v.claims = maps.Clone(was)
		maps.Copy(v.claims, fresh)
	}
	v.mu.Unlock()
	w.log(was, fresh)
}

// log logs a claim once for each port, and once more when it is of an address of others.
func (w claimWatch) log(was, now claims) {
	for _, port := range slices.Sorted(maps.Keys(now)) {
		c, level := now[port], slog.LevelInfo
		old, known := was[port]
		if known && (old.owner != "" || c.owner == "") {
			continue
		}
		attrs := []any{event.Is(event.PortClaim), "port", port, "segment", c.segment, "mac", c.mac, "address", c.addr}
		if c.owner != "" {
			level, attrs = slog.LevelWarn, append(attrs, "owner", c.owner)
		}
		w.state.log.Log(context.Background(), level, "a host claims an address outside the networks of its segment: no route leads to it", attrs...)
	}
}

// problems are the claims, those of addresses of others first.
func (c claims) problems() (list []problem.Problem) {
	ports := slices.SortedFunc(maps.Keys(c), func(a, b string) int {
		if (c[a].owner != "") != (c[b].owner != "") {
			return cmp.Compare(c[b].owner, c[a].owner) // "" is the lowest
		}
		return cmp.Compare(a, b)
	})
	for _, port := range ports[:min(mostClaims, len(ports))] {
		list = append(list, c[port].problem(port))
	}
	if more := len(ports) - mostClaims; more > 0 {
		list = append(list, problem.Note("hosts at %d more ports claim addresses outside the networks of their segments: `selvage events --kind port-claim` lists them", more))
	}
	return list
}

func (c claim) problem(port string) problem.Problem {
	text := fmt.Sprintf("port %s: %s claims %s", port, c.mac, c.addr)
	if c.owner != "" {
		text += fmt.Sprintf(", which is %s", c.owner)
	}
	if c.more > 0 {
		text += fmt.Sprintf(", and hosts there claim %d more addresses", c.more)
	}
	text += fmt.Sprintf(". The networks of segment %s have none of them, so no route leads there: correct the host, or guard the port with allowed.addresses", c.segment)
	if c.owner != "" {
		return problem.Warning("%s", text)
	}
	return problem.Note("%s", text)
}
