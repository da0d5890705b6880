package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/edge"
	"github.com/selvage/selvage/internal/observe"
	"github.com/selvage/selvage/internal/problem"
)

// target says which edge to ask.
type target struct {
	runtimeDir
	remoteFlags
	Edge    string `xor:"which" placeholder:"NAME" help:"Name of the edge. Not needed when only one edge runs."`
	PinRoot string `hidden:"" env:"SELVAGE_PIN_ROOT" placeholder:"DIR" help:"Directory in a BPF file system where edges pin their data paths."`
}

// remoteFlags say where an edge is that is not of this host, and who asks.
type remoteFlags struct {
	Address string `group:"An edge elsewhere" xor:"which" env:"SELVAGE_ADDRESS" placeholder:"URL" help:"Ask an edge that listens elsewhere (spec.http), as in https://192.0.2.1:9470."`
	CA      string `name:"ca" group:"An edge elsewhere" env:"SELVAGE_CA" placeholder:"FILE" help:"Authorities that sign its certificate; those of the system without."`
	Cert    string `group:"An edge elsewhere" env:"SELVAGE_CERT" placeholder:"FILE" help:"Certificate by which it knows who asks."`
	Key     string `group:"An edge elsewhere" env:"SELVAGE_KEY" placeholder:"FILE" help:"Private key of that certificate."`
}

// dial returns a client of that edge.
func (r remoteFlags) dial() (*api.Client, error) {
	client, err := api.DialRemote(api.Remote{Address: r.Address, CAFile: r.CA, CertFile: r.Cert, KeyFile: r.Key})
	if err != nil {
		return nil, usageError{err}
	}
	return client, nil
}

// flagsFor are the flags by which another command finds the same edge, of that name, as the same client. It has the files
// of this one's client, and its directory.
func (t target) flagsFor(name string) []string {
	if t.Address == "" {
		return []string{"--edge", name, "--runtime-dir", t.RuntimeDir}
	}
	flags := []string{"--address", t.Address}
	for _, f := range [][2]string{{"--ca", t.CA}, {"--cert", t.Cert}, {"--key", t.Key}} {
		if f[1] != "" {
			flags = append(flags, f[0], f[1])
		}
	}
	return flags
}

// query says which edge to ask and how to print its answer.
type query struct {
	target
	Output string `short:"o" enum:"table,wide,json" default:"table" placeholder:"FORMAT" help:"Print a table, a table with all columns, or JSON: ${enum}."`

	rates *observe.Rates // of a query that is watched
}

type statusCmd struct{ watchedQuery }

// Run prints the edge at a glance, or all there are.
func (c *statusCmd) Run(ctx context.Context, s *streams) error {
	return c.repeat(ctx, s, func(s *streams) error { return c.printAll(ctx, s) })
}

// printAll prints one after the other where several are meant. An error of one keeps no other from it.
func (c *statusCmd) printAll(ctx context.Context, s *streams) error {
	names := []string{c.Edge}
	if c.Edge == "" && c.Address == "" {
		known, err := c.known()
		if err != nil {
			return err
		}
		if len(known) > 1 {
			names = known
		}
	}
	var errs []error
	for i, name := range names {
		if i > 0 && c.Output != "json" {
			fmt.Fprintln(s.out)
		}
		one := *c
		one.Edge, one.rates = name, c.rates.Of(name)
		err := one.print(ctx, s)
		var wrong usageError
		if c.Edge == "" && errors.As(err, &wrong) { // it ended since it was listed
			continue
		}
		errs = append(errs, err)
	}
	return joined(errs)
}

// joined is all errors, and errBroken when there is no other.
func joined(errs []error) error {
	told := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return errors.Is(err, errBroken) })
	return cmp.Or(errors.Join(told...), errors.Join(errs...))
}

func (c *statusCmd) print(ctx context.Context, s *streams) error {
	var verdict problem.Verdict
	question := func(client *api.Client, ctx context.Context) (api.Status, error) {
		st, err := client.Status(ctx)
		verdict = cmp.Or(st.Verdict, problem.Sum(st.Problems)) // a release before has no verdict
		return st, err
	}
	err := show(ctx, c.query, s.out, question, func(w observe.Writer, st api.Status) error {
		return observe.Status(w, st, time.Now())
	})
	if err == nil && verdict == problem.Broken {
		return errBroken
	}
	return err
}

// Help says what kong's flags do not.
func (*statusCmd) Help() string {
	return "The first line is the verdict: OK; DEGRADED, when there are warnings; or BROKEN, when packets are lost or the configuration is not in force. " +
		"The exit status is 1 when the edge is broken or does not run, else 0. Of several edges all are shown, unless --edge names one."
}

type portsCmd struct{ watchedQuery }

// Run lists local ports and, in words, the interfaces that packets may pass through.
func (c *portsCmd) Run(ctx context.Context, s *streams) error {
	return c.repeat(ctx, s, func(s *streams) error { return c.print(ctx, s) })
}

func (c *portsCmd) print(ctx context.Context, s *streams) error {
	if err := show(ctx, c.query, s.out, (*api.Client).Ports, observe.Ports); err != nil || c.Output == "json" {
		return err
	}
	fmt.Fprintln(s.out)
	return show(ctx, c.query, s.out, (*api.Client).Interfaces, observe.Interfaces)
}

type interfacesCmd struct{ query }

// Run lists underlay and uplink interfaces.
func (c *interfacesCmd) Run(ctx context.Context, s *streams) error {
	return show(ctx, c.query, s.out, (*api.Client).Interfaces, observe.Interfaces)
}

type tepsCmd struct {
	watchedQuery
}

// Run lists remote tunnel endpoints.
func (c *tepsCmd) Run(ctx context.Context, s *streams) error {
	return c.repeat(ctx, s, func(s *streams) error {
		return show(ctx, c.query, s.out, (*api.Client).TEPs, observe.TEPs)
	})
}

type fdbListCmd struct {
	query
	entryFilter
	Static bool   `xor:"origin" help:"Show only static entries."`
	Origin string `xor:"origin" placeholder:"ORIGIN" help:"Show only entries of this origin: learned, static or bgp."`
	Limit  int    `help:"Show at most this many entries; 0 shows all." default:"0"`
}

// Run lists MAC addresses.
func (c *fdbListCmd) Run(ctx context.Context, s *streams) error {
	if err := checkOrigin(c.Origin, api.Origins); err != nil {
		return err
	}
	q, err := c.question(c.Limit)
	if err != nil {
		return err
	}
	if q.Origin = c.Origin; c.Static {
		q.Origin = "static"
	}
	return showEntries(ctx, c.query, s, (*api.Client).FDB, q, observe.FDB)
}

// checkOrigin refuses a word for which the answer would always be empty.
func checkOrigin(given string, known []string) error {
	if given != "" && !slices.Contains(known, given) {
		return usageError{fmt.Errorf("--origin: %q is none of %s", given, strings.Join(known, ", "))}
	}
	return nil
}

type flowsCmd struct {
	watchedQuery
	entryFilter
	Addr     prefixFlag    `placeholder:"ADDRESS" help:"Show only flows with this source or destination, before or after NAT: an address or a prefix."`
	Slow     bool          `xor:"slow" help:"Show only flows that are not on the fast path."`
	Limit    int           `default:"100" help:"Show at most this many flows, the busiest first; 0 shows all."`
	Stats    bool          `xor:"slow" help:"Show statistics of the flow cache: use, hits, and misses by reason."`
	Interval time.Duration `placeholder:"TIME" help:"Measure rates over this interval, such as 1s: of flows, the fastest first, or with --stats of the flow cache."`
}

// Run lists cached decisions, or says how the cache does.
func (c *flowsCmd) Run(ctx context.Context, s *streams) error {
	return c.repeat(ctx, s, func(s *streams) error { return c.print(ctx, s) })
}

func (c *flowsCmd) print(ctx context.Context, s *streams) error {
	switch {
	case c.Stats:
		return c.stats(ctx, s)
	case c.Interval != 0 && (c.Interval < api.LeastInterval || c.Interval > api.MostInterval):
		return usageError{fmt.Errorf("--interval: %s is not a time from %s to %s", c.Interval, api.LeastInterval, api.MostInterval)}
	}
	q, err := c.question(c.Limit)
	if err != nil {
		return err
	}
	q.Addr, q.Slow, q.Interval = c.Addr.Prefix, c.Slow, c.Interval
	return showEntries(ctx, c.query, s, (*api.Client).Flows, q, observe.Flows)
}

func (c *flowsCmd) stats(ctx context.Context, s *streams) error {
	switch {
	case c.given() || c.Addr.IsValid():
		return usageError{errors.New("--stats covers the whole flow cache: it takes no filters")}
	case c.Interval < 0:
		return usageError{fmt.Errorf("--interval: %s is negative; give a time such as 1s", c.Interval)}
	case c.Interval == 0:
		return show(ctx, c.query, s.out, (*api.Client).FlowCache, observe.FlowCache)
	}
	question := func(client *api.Client, ctx context.Context) (api.FlowCacheInfo, error) {
		return client.FlowCacheRates(ctx, c.Interval)
	}
	return show(ctx, c.query, s.out, question, observe.FlowCache)
}

type metricsCmd struct{ target }

// Run prints the metrics as a scraper would get them.
func (c *metricsCmd) Run(ctx context.Context, s *streams) error {
	client, err := c.dial()
	if err != nil {
		return err
	}
	text, err := client.Metrics(ctx)
	if err != nil {
		return err
	}
	_, err = io.WriteString(s.out, text)
	return err
}

type dropsCmd struct {
	watchedQuery
	All bool   `short:"a" help:"Also list reasons with no drops."`
	By  string `enum:",port,segment,remote" default:"" placeholder:"OWNER" help:"Count the packets of each port, segment or remote: port, segment or remote."`
}

// Run lists dropped packets by reason.
func (c *dropsCmd) Run(ctx context.Context, s *streams) error {
	return c.repeat(ctx, s, func(s *streams) error { return c.print(ctx, s) })
}

func (c *dropsCmd) print(ctx context.Context, s *streams) error {
	switch {
	case c.By != "" && c.All:
		return usageError{errors.New("--by lists drops that happened: it takes no --all")}
	case c.By != "":
		return c.printOwners(ctx, s)
	}
	return show(ctx, c.query, s.out, (*api.Client).Drops, func(w observe.Writer, drops []api.DropInfo) error {
		return observe.Drops(w, drops, c.All)
	})
}

func (c *dropsCmd) printOwners(ctx context.Context, s *streams) error {
	question := func(client *api.Client, ctx context.Context) ([]api.OwnerDropInfo, error) {
		return client.OwnerDrops(ctx, c.By)
	}
	return show(ctx, c.query, s.out, question, func(w observe.Writer, drops []api.OwnerDropInfo) error {
		return observe.OwnerDrops(w, c.By, drops)
	})
}

type limitsCmd struct {
	watchedQuery
	All     bool   `short:"a" help:"Also list limits of which nothing is used."`
	Port    string `xor:"owner" placeholder:"NAME" help:"Show only this local port."`
	Segment string `xor:"owner" placeholder:"NAME" help:"Show only this segment."`
}

// Run lists limits and what is used of them.
func (c *limitsCmd) Run(ctx context.Context, s *streams) error {
	return c.repeat(ctx, s, func(s *streams) error {
		question := filtered((*api.Client).Limits, c.wants)
		return show(ctx, c.query, s.out, question, func(w observe.Writer, limits []api.LimitInfo) error {
			return observe.Limits(w, limits, c.All)
		})
	})
}

func (c *limitsCmd) wants(l api.LimitInfo) bool {
	switch {
	case c.Port != "":
		return l.Kind == "port" && l.Owner == c.Port
	case c.Segment != "":
		return l.Kind == "segment" && l.Owner == c.Segment
	}
	return true
}

// ask is a question to an edge, such as (*edge.Client).Ports.
type ask[T any] func(*api.Client, context.Context) (T, error)

// filtered asks and leaves out what only refuses.
func filtered[T any](question ask[[]T], only func(T) bool) ask[[]T] {
	return func(c *api.Client, ctx context.Context) ([]T, error) {
		all, err := question(c, ctx)
		return slices.DeleteFunc(all, func(v T) bool { return !only(v) }), err
	}
}

// show asks the edge that q chooses and prints the answer.
func show[T any](ctx context.Context, q query, w io.Writer, question ask[T], table func(observe.Writer, T) error) error {
	client, err := q.dial()
	if err != nil {
		return err
	}
	document, err := question(client, ctx)
	if err != nil {
		return err
	}
	if q.Output == "json" {
		return observe.JSON(w, document)
	}
	return table(observe.Writer{Writer: w, Wide: q.Output == "wide", Rates: q.rates}, document)
}

// dial returns a client of the edge that was named or is the only one.
func (t target) dial() (*api.Client, error) {
	if t.Address != "" {
		return t.remoteFlags.dial()
	}
	names, err := t.running()
	switch {
	case err != nil:
		return nil, err
	case t.Edge != "" && slices.Contains(names, t.Edge):
		return api.Dial(t.RuntimeDir, t.Edge), nil
	case t.Edge == "" && len(names) == 1:
		return api.Dial(t.RuntimeDir, names[0]), nil
	}
	if len(names) == 0 || t.Edge != "" {
		list, err := t.abandoned()
		if err != nil || len(list) > 0 {
			return nil, errors.Join(append(list, err)...)
		}
	}
	switch {
	case len(names) == 0:
		hint := ""
		if _, err := os.ReadDir(datapath.PinRoot(t.PinRoot)); errors.Is(err, fs.ErrPermission) {
			hint = "; with sudo this also shows data paths whose edges do not run"
		}
		return nil, fmt.Errorf("no edge runs here (none answers in %s); start one with selvage edge -c FILE%s", t.RuntimeDir, hint)
	case t.Edge != "":
		return nil, usageError{fmt.Errorf("edge %q does not run; running: %s", t.Edge, strings.Join(names, ", "))}
	}
	return nil, usageError{fmt.Errorf("several edges run; choose one with --edge: %s", strings.Join(names, ", "))}
}

// running are the edges that answer.
func (t target) running() ([]string, error) {
	names, err := api.Running(t.RuntimeDir)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("edges in %s answer root only; try sudo", t.RuntimeDir)
	}
	return names, err
}

// known are the edges that run, and those whose data paths go on, by name.
func (t target) known() ([]string, error) {
	names, err := t.running()
	if err != nil {
		return nil, err
	}
	list, err := edge.AbandonedIn(t.PinRoot, t.RuntimeDir)
	for _, a := range list {
		names = append(names, a.Name)
	}
	slices.Sort(names)
	return names, err
}

// abandoned are errors of the edge that was asked for, or of all, that do not run though their data paths go on.
func (t target) abandoned() (errs []error, err error) {
	list, err := edge.AbandonedIn(t.PinRoot, t.RuntimeDir)
	for _, a := range list {
		if t.Edge == "" || t.Edge == a.Name {
			errs = append(errs, a)
		}
	}
	return errs, err
}
