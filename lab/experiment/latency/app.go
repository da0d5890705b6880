package latency

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/topo"
)

// app is the application loop of one network: a client asks a web service, which asks a
// database for every answer.
//
//	client --- host A ==== host B --- server: the web service
//	client2 ------+ the database
//
// So a request crosses the path of the target four times, and each of the three is a
// guest with a port, and a firewall, of its own.
type app struct{ service *measure.AppService }

// newApp starts web service and database, which stay until close, or the end of the lab.
func newApp(ctx context.Context, n *topo.TwoHosts) (*app, error) {
	if len(n.Pairs) < 2 {
		return nil, errors.New("the application loop needs two pairs of guests: the second's client has the database")
	}
	ends := measure.AppEnds{
		Client: n.Pairs[0].Client,
		Web:    n.Pairs[0].Server, WebAddr: n.Pairs[0].ServerAddr(experiment.InnerFamily),
		Database: n.Pairs[1].Client, DatabaseAddr: n.Pairs[1].ClientAddr(experiment.InnerFamily),
	}
	for _, way := range []struct {
		from *topo.Host
		to   netip.Addr
	}{{ends.Client, ends.WebAddr}, {ends.Web, ends.DatabaseAddr}} {
		if err := way.from.Reach(ctx, way.to); err != nil {
			return nil, fmt.Errorf("application loop: %w", err)
		}
	}
	service, err := measure.StartApp(ctx, ends)
	if err != nil {
		return nil, fmt.Errorf("application loop: %w", err)
	}
	return &app{service}, nil
}

// sample asks for a while.
func (a *app) sample(ctx context.Context, o measure.AppOptions) (result.Sample, error) {
	run, err := measure.RunApp(ctx, a.service, o)
	if err != nil {
		return result.Sample{}, err
	}
	return run.Sample(), nil
}

func (a *app) close() error { return a.service.Stop(context.Background()) }

// appRate is requests a second of the loop at a rate: a fifth of what the service does on
// one core, and often enough that the core does not fall asleep between them.
const appRate = 1000

// appLoops are the ways in which the service is asked, each a sample of its own: one after
// the other on one connection, one after the other each with a connection, and at a rate
// (none when it is 0).
func appLoops(duration time.Duration, rate int) []measure.AppOptions {
	loops := []measure.AppOptions{{}, {Connect: true}}
	if rate > 0 {
		loops = append(loops, measure.AppOptions{Rate: rate})
	}
	for i := range loops {
		loops[i].Duration = duration
	}
	return loops
}

// appParameters describe the loop for the record.
func appParameters(a *app, loops []measure.AppOptions) result.Parameters {
	p := result.Parameters{
		"app":         result.Words(a.service.Description),
		"app_guests":  result.Words("client and database behind host A, web service behind host B, so a request crosses between the hosts four times"),
		"app_cores":   result.Words("client, web service and database on the first core"),
		"app_latency": result.Words("for app and app_connect the service time, one request at a time"),
	}
	for _, o := range loops {
		if o.Rate > 0 {
			p["app_rate"] = result.Count(o.Rate).In("1/s").Explained("requests, each latency from when it was due, so it includes waiting (no coordinated omission)")
		}
		p["app_duration"] = result.Time(o.Duration)
	}
	return p
}
