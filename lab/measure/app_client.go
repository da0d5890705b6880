package measure

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// AppClient asks AppWeb for items, and checks what it gets.
type AppClient struct {
	Endpoint
	Rate     int           `help:"requests a second that are due; 0 asks when there is an answer"`
	Workers  int           `default:"1" help:"requests that may be outstanding"`
	Connect  bool          `help:"make a connection for each request"`
	Warmup   time.Duration `default:"500ms" help:"time before measuring"`
	Duration time.Duration `default:"1s" help:"time of measuring"`
}

// appReport is what the client's process prints. Times are nanoseconds.
type appReport struct {
	Requests  int64                  `json:"requests"`
	ElapsedNS int64                  `json:"elapsed_ns"`
	Latency   *hdrhistogram.Snapshot `json:"latency"`
	Late      *hdrhistogram.Snapshot `json:"late"`
}

// appLongest is the longest latency that is told apart: at a rate, requests also wait
// for those before them.
const appLongest = 2 * time.Minute

// appBehind is how long the last requests may be late: more than others keep a busy machine
// from this one.
const appBehind = time.Second

// appRequest is one request; times are after the client began.
type appRequest struct {
	id    int
	start time.Duration // when it is due, or made
}

// appWorker is one request at a time.
type appWorker struct {
	client  *AppClient
	next    func() (appRequest, bool)
	began   time.Time
	conn    net.Conn
	reader  *bufio.Reader
	latency *hdrhistogram.Histogram
	// first is when the first request that counts was due, last when the last was answered.
	first, last time.Duration
	counted     int64
}

// Run measures and prints a report to standard output.
func (c *AppClient) Run() error {
	steady()
	report, err := c.measure()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}

func (c *AppClient) measure() (*appReport, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	began, late := time.Now(), appHistogram()
	next := c.closedLoop(began)
	var running sync.WaitGroup
	if c.Rate > 0 {
		due := make(chan appRequest, 1<<16)
		next = func() (appRequest, bool) { r, ok := <-due; return r, ok }
		running.Go(func() {
			defer close(due)
			if err := c.dispatch(ctx, began, due, late); err != nil {
				cancel(err)
			}
		})
	}
	workers := make([]*appWorker, c.Workers)
	for i := range workers {
		w := &appWorker{client: c, next: next, began: began, latency: appHistogram(), first: c.Warmup + c.Duration}
		workers[i] = w
		running.Go(func() {
			if err := w.work(ctx); err != nil {
				cancel(err) // and all others end too
			}
		})
	}
	running.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	report, err := c.conclude(workers)
	if err != nil {
		return nil, err
	}
	report.Late = late.Export()
	return report, nil
}

// closedLoop has a request whenever it is asked for one, until the time is over.
func (c *AppClient) closedLoop(began time.Time) func() (appRequest, bool) {
	var numbers atomic.Int64
	return func() (appRequest, bool) {
		start := time.Since(began)
		return appRequest{itemOf(numbers.Add(1)), start}, start < c.Warmup+c.Duration
	}
}

// itemOf spreads requests over the table.
func itemOf(number int64) int { return int(number * 7919 % appItems) }

// dispatch hands out requests when they are due, and notes in late how late that was. The Go
// runtime's own timers have milliseconds where all goroutines wait for packets.
func (c *AppClient) dispatch(ctx context.Context, began time.Time, due chan<- appRequest, late *hdrhistogram.Histogram) error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("exact timers: %w", err)
	}
	for number := int64(0); ctx.Err() == nil; number++ {
		start := time.Duration(float64(number) / float64(c.Rate) * float64(time.Second))
		if start >= c.Warmup+c.Duration {
			return nil
		}
		for wait := start - time.Since(began); wait > 0; wait = start - time.Since(began) {
			ts := unix.NsecToTimespec(wait.Nanoseconds())
			_ = unix.Nanosleep(&ts, nil) // a signal ends it early
		}
		if start >= c.Warmup {
			if err := late.RecordValue(int64(time.Since(began) - start)); err != nil {
				return err
			}
		}
		select {
		case due <- appRequest{itemOf(number), start}:
		case <-ctx.Done():
		}
	}
	return nil
}

func appHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, appLongest.Nanoseconds(), rrDigits)
}

// conclude joins what the workers have.
func (c *AppClient) conclude(workers []*appWorker) (*appReport, error) {
	report, latency := &appReport{}, appHistogram()
	first, last := workers[0].first, workers[0].last
	for _, w := range workers {
		latency.Merge(w.latency)
		report.Requests += w.counted
		first, last = min(first, w.first), max(last, w.last)
	}
	if report.Requests == 0 {
		return nil, errors.New("no request was answered in time")
	}
	report.ElapsedNS = int64(last - first)
	report.Latency = latency.Export()
	return report, nil
}

// keepsUp is an error where requests wait that should long have been answered. There is
// no latency then: the longer one measures, the higher it is.
func (c *AppClient) keepsUp(now time.Duration) error {
	end := c.Warmup + c.Duration
	if c.Rate == 0 || now < end+end/20+appBehind {
		return nil
	}
	return fmt.Errorf("the service cannot keep up: requests of %s still wait after %s; use less than %d a second", end, now, c.Rate)
}

// work asks until the time is over.
func (w *appWorker) work(ctx context.Context) error {
	defer w.hangUp()
	for {
		request, ok := w.next()
		// In a closed loop the last request may have taken all the time: one more is due.
		if !ok && (w.client.Rate > 0 || w.counted > 0) || ctx.Err() != nil {
			return nil
		}
		if err := w.client.keepsUp(time.Since(w.began)); err != nil {
			return err
		}
		body, err := w.ask(request.id)
		end := time.Since(w.began)
		if err == nil {
			err = checkItem(body, request.id)
		}
		if err == nil && request.start >= w.client.Warmup {
			err = w.count(request.start, end)
		}
		if err != nil {
			return fmt.Errorf("item %d, asked for after %s: %w", request.id, request.start, err)
		}
	}
}

func (w *appWorker) count(start, end time.Duration) error {
	w.counted++
	w.first, w.last = min(w.first, start), max(w.last, end)
	return w.latency.RecordValue(int64(end - start))
}

// ask gets one item.
func (w *appWorker) ask(id int) ([]byte, error) {
	if w.conn == nil {
		if err := w.connect(); err != nil {
			return nil, err
		}
	}
	closing := ""
	if w.client.Connect {
		closing = "Connection: close\r\n"
		defer w.hangUp()
	}
	if err := w.conn.SetDeadline(time.Now().Add(appTimeout)); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(w.conn, "GET /item/%d HTTP/1.1\r\nHost: web\r\n%s\r\n", id, closing); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(w.reader, nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return body, err
}

func (w *appWorker) connect() error {
	addr := netip.AddrPortFrom(w.client.Addr, uint16(w.client.Port))
	conn, err := net.DialTimeout("tcp", addr.String(), appTimeout)
	if err != nil {
		return err
	}
	w.conn, w.reader = conn, bufio.NewReader(conn)
	return nil
}

func (w *appWorker) hangUp() {
	if w.conn != nil {
		w.conn.Close()
		w.conn = nil
	}
}
