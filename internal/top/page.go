package top

import (
	"context"
	"net/netip"
	"time"

	"github.com/selvage/selvage/internal/api"
)

// page is one of the screens.
type page struct {
	name    string
	columns []column
	sort    int // the column by which lines come at first, the largest first; -1: as they are read
	read    func(context.Context, *reader) ([]line, error)
	none    string // what to say without lines
}

// column is one of a page's.
type column struct {
	title string
	right bool // numbers are aligned to the right
}

// line is one of a page's.
type line struct {
	key     string // names it from one reading to the next
	cells   []cell // one for each column
	subject subject
	detail  string // what more there is to say of it
}

// cell is what stands in a column.
type cell struct {
	text string
	by   float64 // what numbers are sorted by; texts of the same number are sorted by themselves
	tone tone
}

// tone is how a cell looks.
type tone int

const (
	plain tone = iota
	faint
	good
	warning
	bad
)

// subject is what a line is about, as far as the commands for more need to know.
type subject struct {
	port    string
	segment string
	remote  netip.Addr
	reason  string
	packet  string // in the words of selvage trace, which are those of a filter too
}

// reader reads pages.
type reader struct {
	client   *api.Client
	interval time.Duration
	rates    rates
}

// pages are all there are, in the order of their keys.
func pages() []page {
	return []page{portsPage(), remotesPage(), flowsPage(), dropsPage(), bgpPage(), egressPage()}
}
