package apiserver

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// lostEdge cannot be read.
type lostEdge struct{ reads int }

func (l *lostEdge) Read(what string, _ func(*State) error) error {
	l.reads++
	return errors.New(what + ": the data path was lost")
}

func (l *lostEdge) ReadInLoop(what string, do func(*State) error) error { return l.Read(what, do) }

func asked(h http.Handler, method, path string) (code int, body string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Code, w.Body.String()
}

// Each document is read once, and what the edge says of a failure is passed on.
func TestDocumentsAreReadOnce(t *testing.T) {
	for _, path := range []string{
		"status", "ports", "interfaces", "teps", "fdb", "neighbours", "routes", "flows", "flow-cache", "drops", "drops/owners?by=port", "limits",
		"trace?packet=icmp+10.0.0.1+%3E+10.0.0.2+56&port=p0", "rules", "firewall", "sessions", "egress", "nat", "nat/sessions", "nat/port-usage",
	} {
		edge := &lostEdge{}
		code, body := asked(New(Options{Edge: edge}), http.MethodGet, "/v1/"+path)
		if code != http.StatusInternalServerError || edge.reads != 1 || !strings.Contains(body, "the data path was lost") {
			t.Errorf("%s: %d %s after %d reads", path, code, body, edge.reads)
		}
	}
}

// A wrong question reads nothing.
func TestWrongQuestions(t *testing.T) {
	edge := &lostEdge{}
	h := New(Options{Edge: edge, BGP: func() *BGP { return nil }})
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/v1/fdb?mac=02", 400}, {"GET", "/v1/flows?limit=many", 400}, {"GET", "/v1/routes?to=10.0.0.0%2F8", 400},
		{"GET", "/v1/drops/owners", 400}, {"GET", "/v1/sessions?policy=web", 400}, {"GET", "/v1/trace?vlan=5000", 400},
		{"GET", "/v1/bgp", 400}, {"GET", "/v1/bgp/routes", 400}, {"POST", "/v1/bgp/reset", 400}, {"POST", "/v1/bgp/thaw?mac=02", 400},
		{"POST", "/v1/prove?timeout=1h", 400}, {"POST", "/v1/egress/drain?timeout=-1s", 400}, {"POST", "/v1/config/apply", 400},
		{"POST", "/v1/status", 405}, {"POST", "/metrics", 405}, {"GET", "/v1/prove", 405}, {"GET", "/v1/what-if", 405}, {"GET", "/v1/config/apply", 405},
		{"GET", "/v1/nothing", 404},
	} {
		if code, body := asked(h, c.method, c.path); code != c.want {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, code, body, c.want)
		}
	}
	if edge.reads > 0 {
		t.Errorf("%d reads", edge.reads)
	}
}

// Until an edge has started its gate says so.
func TestGate(t *testing.T) {
	g := NewGate("a")
	if code, body := asked(g, http.MethodGet, "/v1/status"); code != http.StatusServiceUnavailable || !strings.Contains(body, "edge a is starting") {
		t.Errorf("closed: %d %s", code, body)
	}
	g.Open(New(Options{Edge: &lostEdge{}}))
	if code, _ := asked(g, http.MethodGet, "/v1/nothing"); code != http.StatusNotFound {
		t.Errorf("open: %d", code)
	}
}
