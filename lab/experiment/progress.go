package experiment

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/selvage/selvage/internal/printable"
)

// Progress tells on standard error what runs, what came out, and how long it will
// take: as lines, and on a terminal with a bar below them.
type Progress struct {
	out  io.Writer // the lines
	bars *mpb.Progress
	bar  *mpb.Bar

	total, done int

	mu   sync.Mutex
	what string    // that runs
	end  time.Time // that is expected
}

// refresh is how often the bar is drawn: drawing takes time of the cores that are
// being measured.
const refresh = time.Second

// NewProgress is of so many samples.
func NewProgress(w io.Writer, total int) *Progress {
	p := &Progress{out: w, total: total}
	if !Terminal(w) {
		return p
	}
	p.bars = mpb.New(mpb.WithOutput(printable.Raw(w)), mpb.WithWidth(32), mpb.WithRefreshRate(refresh))
	p.bar = p.bars.AddBar(int64(total),
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.CountersNoUnit("%d of %d ")),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return p.now() })),
	)
	p.out = p.bars
	return p
}

// Terminal says whether w is one.
func Terminal(w io.Writer) bool {
	file, ok := printable.Raw(w).(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// now is the bar's text.
func (p *Progress) now() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return " " + p.what + ", " + About(time.Until(p.end)) + " left"
}

// Note writes a line.
func (p *Progress) Note(format string, args ...any) {
	fmt.Fprintln(p.out, printable.Line(fmt.Sprintf(format, args...)))
}

// Begin says what runs now and how long all will take.
func (p *Progress) Begin(what string, left time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.end = what, time.Now().Add(left)
}

// Ended says what came out of what began last.
func (p *Progress) Ended(outcome string, left time.Duration) {
	p.done++
	p.Note("%*d/%d  %s: %s (%s left)", len(fmt.Sprint(p.total)), p.done, p.total, p.what, outcome, About(left))
	if p.bar != nil {
		p.bar.Increment()
	}
}

// Grow has so many samples more.
func (p *Progress) Grow(more int) {
	p.total += more
	if p.bar != nil {
		p.bar.SetTotal(int64(p.total), false)
	}
}

// Close ends the drawing, so that others can write.
func (p *Progress) Close() {
	if p.bars == nil {
		return
	}
	p.bar.Abort(true)
	p.bars.Wait()
	p.bars = nil
}

// About is a time in minutes and seconds.
func About(d time.Duration) string {
	seconds := int(max(0, d).Round(time.Second) / time.Second)
	if seconds < 60 {
		return fmt.Sprintf("%d s", seconds)
	}
	return fmt.Sprintf("%d min %02d s", seconds/60, seconds%60)
}
