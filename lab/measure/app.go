package measure

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/selvage/selvage/lab/cores"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/topo"
)

// AppEnds are where the application loop runs: an HTTP client, a web service that it
// asks, and the database that the web service asks for every answer. All run on one core, so that
// no wake-up of another is part of the latency.
type AppEnds struct {
	Client, Web, Database *topo.Host
	WebAddr, DatabaseAddr netip.Addr
}

// Ports of the application loop, which a policy has to allow.
const (
	AppWebPort      = 5480
	AppDatabasePort = 5432
)

// AppService is a database and a web service that run until Stop.
type AppService struct {
	Ends AppEnds
	// Description is one line for reports.
	Description string

	database *database
	web      *instrument
}

// StartApp starts the database and then the web service, which fills it.
func StartApp(ctx context.Context, ends AppEnds) (*AppService, error) {
	db, err := startDatabase(ctx, ends)
	if err != nil {
		return nil, err
	}
	s := &AppService{Ends: ends, Description: "a web service with net/http, and " + db.version, database: db}
	if err := s.startWeb(ctx); err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func (s *AppService) startWeb(ctx context.Context) (err error) {
	s.web, err = part{
		host: s.Ends.Web, cpus: cores.Usable()[:1], command: "lab-app-web",
		flags: flags("addr", s.Ends.WebAddr, "port", AppWebPort, "database", s.Ends.DatabaseAddr, "database-port", AppDatabasePort),
	}.serve(ctx, "tcp", AppWebPort)
	return err
}

// Stop ends both and removes the data.
func (s *AppService) Stop(ctx context.Context) error {
	if s.web != nil {
		s.web.Kill()
	}
	return s.database.stop(ctx)
}

// AppOptions are of one run of requests.
type AppOptions struct {
	// Rate is requests a second that are due at fixed times, whether or not the ones before are
	// answered; the latency of each counts from when it was due. Zero is a closed loop: each
	// worker asks when it has its answer, and the latency is the time of service alone.
	Rate int
	// Workers are requests that may be outstanding; default 1, or 64 at a rate.
	Workers int
	// Connect makes a TCP connection for each request, and the latency includes it.
	Connect  bool
	Duration time.Duration // default 2 s
	Warmup   time.Duration // default 500 ms
}

func (o *AppOptions) fill() {
	workers := 1
	if o.Rate > 0 {
		workers = 64
	}
	setDefault(&o.Workers, workers)
	setDefault(&o.Duration, 2*time.Second)
	setDefault(&o.Warmup, 500*time.Millisecond)
}

// App is the outcome of a run.
type App struct {
	Options  AppOptions // as used
	Requests int64
	Elapsed  time.Duration
	Latency  *hdrhistogram.Histogram // nanoseconds
	// Late is how long after a request was due the client woke up for it: the instrument's
	// own part of the latency at a rate. Empty in a closed loop.
	Late *hdrhistogram.Histogram // nanoseconds
	CPU  CPU
}

// RunApp asks a service. Every answer is checked to be the database's.
func RunApp(ctx context.Context, s *AppService, o AppOptions) (*App, error) {
	o.fill()
	ctx, cancel := context.WithTimeout(ctx, o.Warmup+o.Duration+patience)
	defer cancel()
	var report appReport
	cpu, err := part{
		host: s.Ends.Client, cpus: cores.Usable()[:1], command: "lab-app-client", what: "application loop", report: &report,
		flags: flags("addr", s.Ends.WebAddr, "port", AppWebPort, "rate", o.Rate, "workers", o.Workers, "connect", o.Connect,
			"duration", o.Duration, "warmup", o.Warmup),
	}.ask(ctx, s.web)
	if err != nil {
		return nil, err
	}
	return &App{
		Options: o, Requests: report.Requests, Elapsed: time.Duration(report.ElapsedNS),
		Latency: hdrhistogram.Import(report.Latency), Late: hdrhistogram.Import(report.Late),
		CPU: cpu,
	}, nil
}

// Quantile returns a quantile of the latency, q from 0 to 1, in microseconds.
func (a *App) Quantile(q float64) float64 { return quantile(a.Latency, q) }

// Kind is what the run's case and metrics are called by: "app", "app_connect" or,
// at a rate, "app_rated".
func (o AppOptions) Kind() string {
	switch {
	case o.Rate > 0 && o.Connect:
		return "app_rated_connect"
	case o.Rate > 0:
		return "app_rated"
	case o.Connect:
		return "app_connect"
	}
	return "app"
}

// Metrics of the application loop: the kind and one of these.
const (
	AppP50  = "_p50"  // µs
	AppP90  = "_p90"  // µs
	AppP99  = "_p99"  // µs
	AppP999 = "_p999" // µs
	AppMean = "_mean" // µs
	AppRate = "_rate" // requests a second
	AppLate = "_late" // µs, the median of App.Late
)

// Sample is the run as a sample, its case the kind.
func (a *App) Sample() result.Sample {
	kind := a.Options.Kind()
	s := sample(kind, a.Elapsed, a.CPU)
	for name, q := range map[string]float64{AppP50: 0.5, AppP90: 0.9, AppP99: 0.99, AppP999: 0.999} {
		s.Metrics[kind+name] = a.Quantile(q)
	}
	s.Metrics[kind+AppMean] = a.Latency.Mean() / 1e3
	s.Metrics[kind+AppRate] = float64(a.Requests) / a.Elapsed.Seconds()
	if a.Options.Rate > 0 {
		s.Metrics[kind+AppLate] = quantile(a.Late, 0.5)
	}
	s.Latency = quantiles(a.Latency)
	return s
}
