package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"github.com/selvage/selvage/internal/observe"
	"github.com/selvage/selvage/internal/printable"
)

// watchFlag is how often to ask, 0 for once.
type watchFlag time.Duration

const (
	watchDefault = watchFlag(time.Second)
	watchLeast   = watchFlag(100 * time.Millisecond)
)

// IsBool lets the flag stand without a value.
func (watchFlag) IsBool() bool { return true }

// Decode reads --watch and --watch=TIME.
func (f *watchFlag) Decode(ctx *kong.DecodeContext) error {
	*f = watchDefault
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		return nil
	}
	text := ctx.Scan.Pop().String()
	every, err := time.ParseDuration(text)
	if *f = watchFlag(every); err != nil || *f < watchLeast {
		return fmt.Errorf("%q is not a time of at least %s, such as 1s", text, time.Duration(watchLeast))
	}
	return nil
}

// watchedQuery is a query that can be asked again and again.
type watchedQuery struct {
	query
	Watch watchFlag `placeholder:"TIME" help:"Repeat every TIME (1s without a value) until Ctrl-C, and show rates per second beside the counters."`
}

// repeat asks once, or as often as the user watches. A terminal shows the last answer;
// elsewhere each follows the one before. An edge that stops answering is waited for.
func (q *watchedQuery) repeat(ctx context.Context, s *streams, ask func(*streams) error) error {
	if q.Watch == 0 {
		return ask(s)
	}
	terminal := isTerminal(s.out)
	q.rates = &observe.Rates{}
	tick := time.NewTicker(time.Duration(q.Watch))
	defer tick.Stop()
	for first := true; ; first = false {
		now := time.Now()
		q.rates.Next(now)
		var page bytes.Buffer
		clean := printable.NewWriter(&page)
		err := ask(&streams{out: clean, err: clean})
		if errors.Is(err, errBroken) { // what it prints says so
			err = nil
		}
		if first && err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			printError(clean, err)
		}
		if err := q.turn(s.out, now, page.Bytes(), terminal, first); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// turn writes a page: over the one before on a terminal, else below it. JSON documents just
// follow each other.
func (q *watchedQuery) turn(w io.Writer, at time.Time, page []byte, terminal, first bool) error {
	const home, clearRest = "\x1b[H", "\x1b[J"
	before := ""
	switch {
	case q.Output == "json":
	case terminal:
		before = home + clearRest + at.Format(time.DateTime) + "\n\n"
	case first:
		before = at.UTC().Format(time.RFC3339) + "\n"
	default:
		before = "\n" + at.UTC().Format(time.RFC3339) + "\n"
	}
	_, err := fmt.Fprintf(printable.Raw(w), "%s%s", before, page)
	return err
}

// isTerminal reports whether a stream is one.
func isTerminal(stream io.Writer) bool {
	file, ok := printable.Raw(stream).(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
