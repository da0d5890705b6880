package edge

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/overlay"
)

// Filters are evaluated by the edge; each of them alone, and the limit.
func TestEntryQueries(t *testing.T) {
	c, _ := newGatewayWorld(t).run()
	ctx := context.Background()
	prefix := netip.MustParsePrefix
	for _, tt := range []struct {
		what    string
		ask     func(api.EntryQuery) (shown, matched int, err error)
		q       api.EntryQuery
		shown   int
		matched int
	}{
		{"fdb", countEntries(ctx, c.FDB), api.EntryQuery{}, 2, 2},
		{"fdb", countEntries(ctx, c.FDB), api.EntryQuery{Segment: "red"}, 0, 0},
		{"fdb", countEntries(ctx, c.FDB), api.EntryQuery{Port: "p0"}, 1, 1},
		{"fdb", countEntries(ctx, c.FDB), api.EntryQuery{Port: "p"}, 0, 0},
		{"fdb", countEntries(ctx, c.FDB), api.EntryQuery{Remote: remote}, 1, 1},
		{"fdb", countEntries(ctx, c.FDB), api.EntryQuery{MAC: mac}, 1, 1},
		{"fdb", countEntries(ctx, c.FDB), api.EntryQuery{Origin: "static"}, 1, 1},
		{"fdb", countEntries(ctx, c.FDB), api.EntryQuery{Limit: 1}, 1, 2},
		{"neighbours", countEntries(ctx, c.Neighbours), api.EntryQuery{}, 3, 3},
		{"neighbours", countEntries(ctx, c.Neighbours), api.EntryQuery{Segment: "wan"}, 1, 1},
		{"neighbours", countEntries(ctx, c.Neighbours), api.EntryQuery{Port: "p0"}, 1, 1},
		{"neighbours", countEntries(ctx, c.Neighbours), api.EntryQuery{Remote: remote}, 1, 1},
		{"neighbours", countEntries(ctx, c.Neighbours), api.EntryQuery{MAC: mac}, 1, 1},
		{"neighbours", countEntries(ctx, c.Neighbours), api.EntryQuery{Addr: prefix("10.0.0.0/24")}, 2, 2},
		{"neighbours", countEntries(ctx, c.Neighbours), api.EntryQuery{Addr: prefix("10.0.0.5/32")}, 1, 1},
		{"neighbours", countEntries(ctx, c.Neighbours), api.EntryQuery{Origin: "bgp"}, 0, 0},
		{"flows", countEntries(ctx, c.Flows), api.EntryQuery{}, 3, 3},
		{"flows", countEntries(ctx, c.Flows), api.EntryQuery{Segment: "blue", Port: "p0"}, 3, 3},
		{"flows", countEntries(ctx, c.Flows), api.EntryQuery{Remote: remote}, 1, 1},
		{"flows", countEntries(ctx, c.Flows), api.EntryQuery{MAC: overlay.MAC{255, 255, 255, 255, 255, 255}}, 1, 1},
		{"flows", countEntries(ctx, c.Flows), api.EntryQuery{Addr: prefix("192.0.2.0/24")}, 1, 1},
		{"flows", countEntries(ctx, c.Flows), api.EntryQuery{Slow: true}, 1, 1},
		{"flows", countEntries(ctx, c.Flows), api.EntryQuery{Segment: "red"}, 0, 0},
		{"flows", countEntries(ctx, c.Flows), api.EntryQuery{Limit: 2}, 2, 3},
		{"flows", countEntries(ctx, c.Flows), api.EntryQuery{Limit: 2, Interval: api.LeastInterval}, 2, 3},
	} {
		shown, matched, err := tt.ask(tt.q)
		if err != nil || shown != tt.shown || matched != tt.matched {
			t.Errorf("%s %+v: %d of %d (%v), want %d of %d", tt.what, tt.q, shown, matched, err, tt.shown, tt.matched)
		}
	}
}

func countEntries[T any](ctx context.Context, get func(context.Context, api.EntryQuery) (api.Entries[T], error)) func(api.EntryQuery) (int, int, error) {
	return func(q api.EntryQuery) (int, int, error) {
		entries, err := get(ctx, q)
		return len(entries.List), entries.Matched, err
	}
}

// A query that is not understood is refused, with what would be right.
func TestQueryMistakes(t *testing.T) {
	w := newWorld(t)
	c, _ := w.run()
	for query, want := range map[string]string{
		"fdb?mac=02":             `mac: "02" is not a MAC address`,
		"fdb?addr=10.0.0.1":      `there is no parameter "addr" here; there are: limit, mac, origin, port, remote, segment`,
		"fdb?origin=evpn":        `origin: "evpn" is not one of learned, static, bgp`,
		"flows?addr=10.0.0":      `addr: "10.0.0" is not an IP address or prefix`,
		"flows?interval=1h":      `interval: "1h" is not a time from 100ms to 10s`,
		"flows?limit=-1":         `limit: "-1" is not a number from 0 to`,
		"flows?limit=many":       `limit: "many" is not a number`,
		"flows?slow=perhaps":     `slow: "perhaps" is not true or false`,
		"neighbours?remote=b":    `remote: "b" is not an IP address`,
		"neighbours?adr=b":       `there is no parameter "adr" here`,
		"routes?to=10.0.0.0%2F8": `to: "10.0.0.0/8" is not an IP address`,
		"trace?vlan=5000":        `vlan: "5000" is not a number from 0 to 4094`,
	} {
		_, err := api.Fetch[any](context.Background(), c, query)
		var refused *api.QueryError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want a refusal with %q", query, err, want)
		}
	}
	w.mu.Lock()
	w.failing["flows"] = errFake
	w.mu.Unlock()
	var refused *api.QueryError
	if _, err := c.Flows(context.Background(), api.EntryQuery{}); err == nil || errors.As(err, &refused) {
		t.Errorf("a failure is %v, want one that is not the asker's fault", err)
	}
}
