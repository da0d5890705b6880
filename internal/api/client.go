package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clientTimeout bounds how long an edge says nothing, so that a stuck one does not hang its asker. An answer may take longer.
const clientTimeout = 60 * time.Second

// Client asks one running edge over its socket. Its methods may be called at
// the same time. Their errors say when the edge does not run.
type Client struct {
	name    string
	remote  bool   // it is not on this host, or asked as if
	base    string // of its URLs
	http    *http.Client
	silence time.Duration // how long the edge may say nothing
}

// Dial returns a client of the edge called name. It does not connect yet. An
// empty runtimeDir is DefaultRuntimeDir.
func Dial(runtimeDir, name string) *Client {
	path := SocketPath(cmp.Or(runtimeDir, DefaultRuntimeDir), name)
	return DialBy(name, func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	})
}

// DialBy is Dial by connections that connect makes.
func DialBy(name string, connect func(context.Context) (net.Conn, error)) *Client {
	return &Client{name: name, base: "http://edge", silence: clientTimeout, http: &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true, // nothing to close
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return connect(ctx) },
		},
	}}
}

// applyTimeout bounds a change of the configuration: one with 100,000 rules takes seconds.
const applyTimeout = 5 * time.Minute

// patient is the same client for what takes longer than questions.
func (c *Client) patient() *Client {
	patient := *c
	patient.silence = applyTimeout
	return &patient
}

// Running names the edges that answer in runtimeDir, sorted. A missing
// directory has none; a socket that this user may not open is an error. An
// empty runtimeDir is DefaultRuntimeDir.
func Running(runtimeDir string) ([]string, error) {
	if runtimeDir == "" {
		runtimeDir = DefaultRuntimeDir
	}
	sockets, err := filepath.Glob(filepath.Join(runtimeDir, "*.sock"))
	if err != nil {
		return nil, fmt.Errorf("list edges: %w", err)
	}
	var names []string
	for _, path := range sockets {
		conn, err := net.DialTimeout("unix", path, time.Second)
		switch {
		case errors.Is(err, fs.ErrPermission):
			return nil, fmt.Errorf("list edges: %w: run it as root", err)
		case err != nil: // left by a process that was killed
			continue
		}
		conn.Close()
		names = append(names, strings.TrimSuffix(filepath.Base(path), ".sock"))
	}
	slices.Sort(names)
	return names, nil
}

// Status fetches the edge at a glance.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return Fetch[Status](ctx, c, "status")
}

// Ports fetches the local attachments, in the configuration's order.
func (c *Client) Ports(ctx context.Context) ([]PortInfo, error) {
	return Fetch[[]PortInfo](ctx, c, "ports")
}

// Interfaces fetches underlay and uplink interfaces, in the configuration's order.
func (c *Client) Interfaces(ctx context.Context) ([]InterfaceInfo, error) {
	return Fetch[[]InterfaceInfo](ctx, c, "interfaces")
}

// TEPs fetches the remote tunnel endpoints, by address.
func (c *Client) TEPs(ctx context.Context) ([]TEPInfo, error) {
	return Fetch[[]TEPInfo](ctx, c, "teps")
}

// FDB fetches the entries of the forwarding database that q chooses, by segment and MAC address.
func (c *Client) FDB(ctx context.Context, q EntryQuery) (Entries[FDBEntry], error) {
	return fetchEntries[FDBEntry](ctx, c, "fdb", q)
}

// Neighbours fetches the hosts' IP addresses that q chooses and their MAC addresses, by
// segment and address.
func (c *Client) Neighbours(ctx context.Context, q EntryQuery) (Entries[NeighbourInfo], error) {
	return fetchEntries[NeighbourInfo](ctx, c, "neighbours", q)
}

// Routes fetches the routes of all routers, by router and prefix; with an address to, the
// one of each router that packets to it take.
func (c *Client) Routes(ctx context.Context, to netip.Addr) ([]RouteInfo, error) {
	if !to.IsValid() {
		return Fetch[[]RouteInfo](ctx, c, "routes")
	}
	return Fetch[[]RouteInfo](ctx, c, "routes?"+url.Values{ArgTo: {to.String()}}.Encode())
}

// Trace asks what the data path would do with a packet. Nothing is sent, learned
// or counted.
func (c *Client) Trace(ctx context.Context, q TraceQuery) (TraceInfo, error) {
	return Fetch[TraceInfo](ctx, c, "trace?"+q.values().Encode())
}

// Flows fetches the entries of the flow cache that q chooses, the busiest flow first.
func (c *Client) Flows(ctx context.Context, q EntryQuery) (Entries[FlowInfo], error) {
	return fetchEntries[FlowInfo](ctx, c, "flows", q)
}

// FlowCache fetches the use of the flow cache since the data path was loaded.
func (c *Client) FlowCache(ctx context.Context) (FlowCacheInfo, error) {
	return Fetch[FlowCacheInfo](ctx, c, "flow-cache")
}

// FlowCacheRates fetches it twice, an interval apart, and adds the rates in between.
func (c *Client) FlowCacheRates(ctx context.Context, interval time.Duration) (FlowCacheInfo, error) {
	before, err := c.FlowCache(ctx)
	if err != nil {
		return FlowCacheInfo{}, err
	}
	select {
	case <-ctx.Done():
		return FlowCacheInfo{}, ctx.Err()
	case <-time.After(interval):
	}
	after, err := c.FlowCache(ctx)
	if err != nil {
		return FlowCacheInfo{}, err
	}
	if after.Rates, err = Rates(before, after); err != nil {
		return FlowCacheInfo{}, fmt.Errorf("edge %s: %w", c.name, err)
	}
	return after, nil
}

// Metrics fetches all counters in Prometheus' text format.
func (c *Client) Metrics(ctx context.Context) (string, error) {
	body, err := c.Get(ctx, "/metrics")
	if err != nil {
		return "", err
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		return "", fmt.Errorf("edge %s: answer for metrics: %w", c.name, err)
	}
	return string(text), nil
}

// Rules fetches the policy's rules with their counters, in its order.
func (c *Client) Rules(ctx context.Context) ([]RuleInfo, error) {
	return Fetch[[]RuleInfo](ctx, c, "rules")
}

// Firewall fetches how the firewall does.
func (c *Client) Firewall(ctx context.Context) (FirewallInfo, error) {
	return Fetch[FirewallInfo](ctx, c, "firewall")
}

// Sessions fetches the sessions that q chooses, the busiest first, or their sums.
func (c *Client) Sessions(ctx context.Context, q ConnectionQuery) (SessionList, error) {
	return Fetch[SessionList](ctx, c, "sessions?"+q.values().Encode())
}

// WhatIf asks which of the running sessions another policy would cut. Nothing changes.
func (c *Client) WhatIf(ctx context.Context, q WhatIfQuery) (info WhatIfInfo, err error) {
	question, err := json.Marshal(q)
	if err != nil {
		return info, fmt.Errorf("edge %s: question for what-if: %w", c.name, err)
	}
	return post[WhatIfInfo](ctx, c, "what-if", bytes.NewReader(question))
}

// Drops fetches the counter of every reason, zero ones too.
func (c *Client) Drops(ctx context.Context) ([]DropInfo, error) {
	return Fetch[[]DropInfo](ctx, c, "drops")
}

// OwnerDrops fetches the drops by owners of a kind: "port", "segment" or "remote".
func (c *Client) OwnerDrops(ctx context.Context, kind string) ([]OwnerDropInfo, error) {
	return Fetch[[]OwnerDropInfo](ctx, c, "drops/owners?"+url.Values{ArgBy: {kind}}.Encode())
}

// Limits fetches what ports and segments have used of their limits.
func (c *Client) Limits(ctx context.Context) ([]LimitInfo, error) {
	return Fetch[[]LimitInfo](ctx, c, "limits")
}

// Fetch reads a document, by its path below /v1/.
func Fetch[T any](ctx context.Context, c *Client, what string) (document T, err error) {
	body, err := c.Get(ctx, "/v1/"+what)
	if err != nil {
		return document, err
	}
	return decode[T](c, what, body)
}

// fetchEntries fetches the entries of a table that q chooses.
func fetchEntries[T any](ctx context.Context, c *Client, what string, q EntryQuery) (entries Entries[T], err error) {
	if args := q.values().Encode(); args != "" {
		what += "?" + args
	}
	resp, err := c.do(ctx, http.MethodGet, "/v1/"+what, nil)
	if err != nil {
		return entries, err
	}
	if entries.List, err = decode[[]T](c, what, resp.Body); err != nil {
		return entries, err
	}
	entries.Matched, err = strconv.Atoi(resp.Header.Get(MatchedHeader))
	if err != nil {
		return entries, fmt.Errorf("edge %s: answer for %s: header %s: %w", c.name, what, MatchedHeader, err)
	}
	return entries, nil
}

// post asks with a question, or for a change.
func post[T any](ctx context.Context, c *Client, what string, question io.Reader) (document T, err error) {
	resp, err := c.do(ctx, http.MethodPost, "/v1/"+what, question)
	if err != nil {
		return document, err
	}
	return decode[T](c, what, resp.Body)
}

// decode reads a document and closes body.
func decode[T any](c *Client, what string, body io.ReadCloser) (document T, err error) {
	defer body.Close()
	if err := ReadJSON(body, &document); err != nil {
		return document, fmt.Errorf("edge %s: answer for %s: %w", c.name, what, err)
	}
	return document, nil
}

// Get returns the body of a good answer, which the caller closes.
func (c *Client) Get(ctx context.Context, path string) (io.ReadCloser, error) {
	resp, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// QueryError is the answer to a question that the edge does not understand, or that it
// cannot have with its configuration.
type QueryError struct{ text string }

// Error says what is wrong.
func (e *QueryError) Error() string { return e.text }

// do returns a good answer, the body of which the caller closes.
func (c *Client) do(ctx context.Context, method, path string, question io.Reader) (*http.Response, error) {
	// The host of the URL of a socket is not used: DialContext knows it.
	listening := listen(ctx, c.silence)
	req, err := http.NewRequestWithContext(listening.ctx, method, c.base+path, question)
	if err != nil {
		listening.end()
		return nil, fmt.Errorf("edge %s: %w", c.name, err)
	}
	if behalf := os.Getenv("SUDO_USER"); behalf != "" && method != http.MethodGet {
		req.Header.Set(ForHeader, behalf)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		err = explain(c, listening.why(err))
		listening.end()
		return nil, err
	}
	resp.Body = listening.to(resp.Body)
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	var r Refusal
	if err := json.NewDecoder(resp.Body).Decode(&r); err != nil || r.Error == "" {
		r.Error = resp.Status
	}
	if resp.StatusCode == http.StatusBadRequest {
		return nil, &QueryError{fmt.Sprintf("edge %s: %s", c.name, r.Error)}
	}
	if conflict := conflictOf(resp.StatusCode, r); conflict != nil {
		return nil, fmt.Errorf("edge %s: %w", c.name, conflict)
	}
	return nil, fmt.Errorf("edge %s: %s", c.name, r.Error)
}

// explain says what a failing connection means and what to do.
func explain(c *Client, err error) error {
	switch {
	case c.remote:
		return explainRemote(c, err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("edge %s is not running here: %s: %w", c.name, byHand("start it with `selvage edge -c FILE`"), err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("edge %s was killed, its data path may still forward: %s: %w", c.name, byHand("start it again with `selvage edge -c FILE`"), err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("edge %s answers root only: %w", c.name, err)
	}
	return fmt.Errorf("edge %s: %w", c.name, err)
}
