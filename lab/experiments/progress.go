package experiments

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// progress tells on standard error what runs, what came out, and how long it will
// take: as lines, and on a terminal with a bar below them.
type progress struct {
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

func newProgress(w io.Writer, total int) *progress {
	p := &progress{out: w, total: total}
	if !terminal(w) {
		return p
	}
	p.bars = mpb.New(mpb.WithOutput(w), mpb.WithWidth(32), mpb.WithRefreshRate(refresh))
	p.bar = p.bars.AddBar(int64(total),
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.CountersNoUnit("%d of %d ")),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return p.now() })),
	)
	p.out = p.bars
	return p
}

func terminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// now is the bar's text.
func (p *progress) now() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return " " + p.what + ", " + about(time.Until(p.end)) + " left"
}

// note writes a line.
func (p *progress) note(format string, args ...any) {
	fmt.Fprintf(p.out, format+"\n", args...)
}

// begin says what runs now and how long all will take.
func (p *progress) begin(what string, left time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.end = what, time.Now().Add(left)
}

// ended says what came out of what began last.
func (p *progress) ended(outcome string, left time.Duration) {
	p.done++
	p.note("%*d/%d  %s: %s (%s left)", len(fmt.Sprint(p.total)), p.done, p.total, p.what, outcome, about(left))
	if p.bar != nil {
		p.bar.Increment()
	}
}

// close ends the drawing, so that others can write.
func (p *progress) close() {
	if p.bars == nil {
		return
	}
	p.bar.Abort(true)
	p.bars.Wait()
	p.bars = nil
}

// about is a time in minutes and seconds.
func about(d time.Duration) string {
	seconds := int(max(0, d).Round(time.Second) / time.Second)
	if seconds < 60 {
		return fmt.Sprintf("%d s", seconds)
	}
	return fmt.Sprintf("%d min %02d s", seconds/60, seconds%60)
}
