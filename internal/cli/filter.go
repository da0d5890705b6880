package cli

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/observe"
	"github.com/selvage/selvage/internal/overlay"
)

// prefixFlag is an address, or a prefix.
type prefixFlag struct{ netip.Prefix }

// UnmarshalText reads either; an address is the prefix that has it alone.
func (p *prefixFlag) UnmarshalText(text []byte) (err error) {
	if p.Prefix, err = api.ParsePrefix(string(text)); err != nil {
		return fmt.Errorf("%q is neither an IP address nor a prefix", text)
	}
	return nil
}

// entryFilter has the flags by which entries of every table are chosen.
type entryFilter struct {
	Segment string      `placeholder:"NAME" help:"Show only this segment."`
	Port    string      `placeholder:"NAME" help:"Show only this local port; for a trunk, all its VLANs."`
	Remote  netip.Addr  `placeholder:"ADDRESS" help:"Show only this remote, by address."`
	MAC     overlay.MAC `name:"mac" placeholder:"MAC" help:"Show only this MAC address."`
}

// question asks for entries by these filters.
func (f entryFilter) question(limit int) (api.EntryQuery, error) {
	return api.EntryQuery{Segment: f.Segment, Port: f.Port, Remote: f.Remote, MAC: f.MAC, Limit: limit}, checkLimit(limit)
}

// given reports whether there is any.
func (f entryFilter) given() bool { return f != entryFilter{} }

// checkLimit refuses a number of entries that there cannot be.
func checkLimit(limit int) error {
	if limit < 0 {
		return usageError{fmt.Errorf("--limit: %d is negative", limit)}
	}
	return nil
}

// showEntries is show of a table's entries, and says when there are more than the limit.
func showEntries[T any](
	ctx context.Context, q query, s *streams, question func(*api.Client, context.Context, api.EntryQuery) (api.Entries[T], error),
	filter api.EntryQuery, table func(observe.Writer, []T) error,
) error {
	var found api.Entries[T]
	entries := func(client *api.Client, ctx context.Context) (_ []T, err error) {
		found, err = question(client, ctx, filter)
		return found.List, err
	}
	err := show(ctx, q, s.out, entries, table)
	if left := found.Matched - len(found.List); err == nil && left > 0 {
		fmt.Fprintf(s.err, "selvage: %d of %d shown; --limit 0 shows all\n", len(found.List), found.Matched)
	}
	return err
}
