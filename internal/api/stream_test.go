package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// Entry by entry it is the same text, and reads back.
func TestWriteJSON(t *testing.T) {
	sessions := SessionList{Total: 3, Matched: 2, Sessions: []SessionInfo{{Port: "p<0"}, {Port: "p1"}}, Top: []TopInfo{{}}}
	for _, document := range []any{
		nil, 5, "text", map[string]int{"a": 1}, []string{"a", "b"}, []string(nil), []FlowInfo(nil), []FlowInfo{}, []FlowInfo{{Segment: "a"}},
		[]FDBEntry{{Segment: "a", MAC: overlay.MAC{2}, Remote: netip.MustParseAddr("192.0.2.1")}, {Port: "p<0"}, {Age: 0.5}},
		[]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}, netip.MustParseAddr("192.0.2.1"), time.Unix(0, 0).UTC(),
		sessions, &sessions, SessionList{}, NATSessionList{Sessions: make([]NATSessionInfo, 3), Top: make([]TopInfo, 2)},
		Status{Segments: make([]SegmentInfo, 3), Problems: []problem.Problem{problem.Note("a"), problem.Note(`"list": [`)}},
		TEPInfo{Paths: make([]PathInfo, 2)}, OwnerDropInfo{Kind: "port"}, []OwnerDropInfo{{Kind: "port"}, {Owner: "a", DropInfo: DropInfo{Reason: "x"}}},
		WhatIfInfo{}, BGPInfo{}, FlowCacheInfo{Events: make([]EventInfo, 5), Caches: make([]CacheInfo, 2)}, Refusal{Error: "no"},
	} {
		want, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := WriteJSON(&got, document); err != nil || got.String() != string(want)+"\n" {
			t.Errorf("%T: %s (%v), want %s", document, got.String(), err, want)
		}
	}
	if err := WriteJSON(io.Discard, []struct{ F func() }{{}}); err == nil {
		t.Error("a function is JSON")
	}
}

func TestReadJSON(t *testing.T) {
	for text, want := range map[string]int{`[{"reason":"a"},{"reason":"b"}]`: 2, "[]": 0, "null": 0} {
		var list []DropInfo
		if err := ReadJSON(strings.NewReader(text), &list); err != nil || len(list) != want || (list == nil) != (text == "null") {
			t.Errorf("%s: %+v, %v", text, list, err)
		}
	}
	for _, text := range []string{"", "{}", `[{"reason":"a"}`, `[{"reason":"a"},`, `[{"reason":1}]`, `[5]`} {
		var list []DropInfo
		if err := ReadJSON(strings.NewReader(text), &list); err == nil || list != nil {
			t.Errorf("%s: %+v", text, list)
		}
	}
	var prefixes []netip.Prefix
	if err := ReadJSON(strings.NewReader(`["10.0.0.0/8"]`), &prefixes); err != nil || len(prefixes) != 1 {
		t.Errorf("%v, %v", prefixes, err)
	}
}

const patience = 500 * time.Millisecond

// serveLong answers with so many flows to clients of dial, and says how each answer ended.
func serveLong(t *testing.T, flows []FlowInfo) (dial func() net.Conn, ends chan error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ends = make(chan error, 1)
	s := &http.Server{Handler: Patiently(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		err := WriteJSON(w, flows)
		ends <- err
	}), patience)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return func() net.Conn {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}, ends
}

func manyFlows(n int) []FlowInfo {
	flows := make([]FlowInfo, n)
	for i := range flows {
		flows[i] = FlowInfo{Segment: "blue", Why: fmt.Sprint("flow ", i)}
	}
	return flows
}

// slowly reads a little at a time.
type slowly struct {
	net.Conn
	pace *time.Ticker
	read int
}

func (s *slowly) Read(p []byte) (int, error) {
	const much = 256 << 10
	if s.read > much {
		<-s.pace.C
		s.read = 0
	}
	n, err := s.Conn.Read(p)
	s.read += n
	return n, err
}

// A slow reader gets all, though that takes longer than any piece may.
func TestSlowReader(t *testing.T) {
	flows := manyFlows(20_000)
	dial, ends := serveLong(t, flows)
	pace := time.NewTicker(patience / 5)
	defer pace.Stop()
	client := DialBy("a", func(context.Context) (net.Conn, error) { return &slowly{Conn: dial(), pace: pace}, nil })
	begin := time.Now()
	entries, err := Fetch[[]FlowInfo](t.Context(), client, "flows")
	if err != nil || len(entries) != len(flows) || entries[len(flows)-1].Why != flows[len(flows)-1].Why {
		t.Fatalf("%d of %d flows: %v", len(entries), len(flows), err)
	}
	if err := <-ends; err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took < 2*patience {
		t.Errorf("it took %s, less than twice the time of a piece", took)
	}
}

// One that reads nothing is cut off, and its answer is no longer held.
func TestIdleReader(t *testing.T) {
	dial, ends := serveLong(t, manyFlows(20_000))
	conn := dial()
	if _, err := io.WriteString(conn, "GET /v1/flows HTTP/1.1\r\nHost: edge\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if err := <-ends; !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("%v, want a timeout", err)
	}
	rest, err := io.ReadAll(conn)
	if err != nil || bytes.HasSuffix(bytes.TrimSpace(rest), []byte("0")) && bytes.Contains(rest, []byte("flow 19999")) {
		t.Errorf("it got all, or %v", err)
	}
}

// What is no JSON is said while there is time, and cut off after that.
func TestAnswer(t *testing.T) {
	type odd struct{ F any }
	for _, c := range []struct {
		document any
		code     int
		body     string
		cut      bool
	}{
		{[]DropInfo{}, http.StatusOK, "[]\n", false},
		{[]odd{{func() {}}}, http.StatusInternalServerError, `{"error":"answer is not JSON"}` + "\n", false},
		{[]odd{{strings.Repeat("x", 1<<20)}, {func() {}}}, http.StatusOK, "", true},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { Answer(w, http.StatusOK, c.document) }))
		resp, err := http.Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		s.Close()
		if resp.StatusCode != c.code || (err != nil) != c.cut || !c.cut && string(body) != c.body || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%T: %d, %.50s, %v", c.document, resp.StatusCode, body, err)
		}
	}
}

// An edge that says nothing does not hang its asker; one that goes on does not end.
func TestSilentEdge(t *testing.T) {
	here := make(chan net.Conn, 1)
	client := DialBy("a", func(context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		here <- theirs
		return ours, nil
	})
	client.silence = patience
	answered := make(chan error, 1)
	go func() {
		conn := <-here
		defer conn.Close()
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			answered <- err
			return
		}
		_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[")
		pace := time.NewTicker(patience / 4)
		defer pace.Stop()
		for range 8 {
			<-pace.C
			_, _ = io.WriteString(conn, `{"reason":"a"},`)
		}
		answered <- err
		_, _ = io.Copy(io.Discard, conn) // until the client goes
	}()
	begin := time.Now()
	_, err := client.Drops(t.Context())
	if took := time.Since(begin); err == nil || !strings.Contains(err.Error(), "says nothing for 500ms") || took < 2*patience {
		t.Errorf("%v after %s, want that it says nothing, after two times that", err, took)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
	client = DialBy("a", func(context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		return ours, nil
	})
	client.silence = patience
	if _, err := client.Drops(t.Context()); err == nil || !strings.Contains(err.Error(), "says nothing for 500ms") {
		t.Errorf("%v, want that it says nothing", err)
	}
}
