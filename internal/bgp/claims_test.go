package bgp

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// A port whose hosts claim addresses of others is told once, and is one problem until they do not.
func TestClaimsOfPorts(t *testing.T) {
	e := edge()
	gateway := func(a string) *overlay.Gateway {
		return &overlay.Gateway{Router: "tenant", MAC: overlay.AnycastMAC, Addresses: []netip.Prefix{netip.MustParsePrefix(a)}}
	}
	e.Segments[0].Gateway = gateway("10.0.0.1/24")
	e.Segments = append(e.Segments, overlay.Segment{Name: "green", VNI: 101, Gateway: gateway("10.0.1.1/24")})
	var log bytes.Buffer
	w := start(t, func(o *Options) { o.Edge, o.Log = e, slog.New(slog.NewTextHandler(&log, nil)) })
	at := func(port, a string) Host {
		return Host{Host: evpn.Host{Segment: "blue", MAC: hostA, Addr: addr(a)}, Port: port}
	}
	look := func(list ...Host) {
		w.mu.Lock()
		w.hosts = list
		w.mu.Unlock()
		if err := w.process.Look(0); err != nil {
			t.Fatal(err)
		}
		w.done()
	}
	// told checks the events since it was asked last, and the problems.
	told := func(events int, problems ...string) {
		t.Helper()
		w.done()
		if n := strings.Count(log.String(), "event=port-claim"); n != events {
			t.Errorf("%d events, want %d:\n%s", n, events, log.String())
		}
		log.Reset()
		var got []string
		for _, p := range w.process.State().Problems(time.Now()) {
			if strings.HasPrefix(p.Text, "port ") {
				got = append(got, fmt.Sprint(p.Severity, " ", p.Text[:strings.Index(p.Text, ". ")]))
			}
		}
		if !slices.Equal(got, problems) {
			t.Errorf("problems are %q, want %q", got, problems)
		}
	}
	const mac = " 02:00:00:00:00:0a claims "
	w.process.HostsCame([]Host{at("p0", "10.0.0.5"), at("p0", "fe80::5"), {Host: evpn.Host{Segment: "blue", MAC: hostA}, Port: "p0"}})
	told(0)
	w.process.HostsCame([]Host{at("p1", "172.17.0.1"), at("p1", "172.17.0.2")})
	told(1, "note port p1:"+mac+"172.17.0.1, and hosts there claim 1 more addresses")
	w.process.HostsCame([]Host{at("p1", "172.17.0.3")})
	told(0, "note port p1:"+mac+"172.17.0.1, and hosts there claim 1 more addresses") // until the next look
	look(at("p1", "172.17.0.3"), at("p1", "172.17.0.2"), at("p1", "172.17.0.1"), at("p0", "10.0.0.5"))
	told(0, "note port p1:"+mac+"172.17.0.1, and hosts there claim 2 more addresses")
	look(at("p1", "172.17.0.3"), at("p1", "10.0.1.9"), at("p0", "10.0.0.5")) // of the other segment
	told(1, "warning port p1:"+mac+"10.0.1.9, which is in the network 10.0.1.0/24 of segment green, and hosts there claim 1 more addresses")
	static := at("p0", "172.17.0.9")
	static.Static = true
	look(static, at("p0", "10.0.0.5"))
	told(0)

	var many []Host
	for i := range mostClaims + 4 {
		many = append(many, at(fmt.Sprintf("p%02d", i), "172.17.0.1"))
	}
	many[mostClaims+1].Addr = addr("10.0.1.1")
	look(many...)
	list := w.process.State().Problems(time.Now())
	if n := strings.Count(log.String(), "event=port-claim"); n != len(many) {
		t.Errorf("%d events of %d ports", n, len(many))
	}
	list = slices.DeleteFunc(list, func(p problem.Problem) bool { return !strings.Contains(p.Text, "claim") })
	if len(list) != mostClaims+1 || list[0].Severity != problem.SeverityWarning || !strings.Contains(list[mostClaims].Text, "at 4 more ports") {
		t.Errorf("%d problems: %v", len(list), list)
	}
}
