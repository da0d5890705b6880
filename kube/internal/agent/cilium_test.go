package agent

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ciliumAgent answers at a socket as Cilium's agent does, until it is ended.
func ciliumAgent(t *testing.T, socket string, answer *string) (end func()) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { //nolint:gosec // of a test
		_, _ = w.Write([]byte(*answer))
	})}
	go func() { _ = server.Serve(l) }()
	end = func() { _ = server.Close() }
	t.Cleanup(end)
	return end
}

// Without an answer it is not hoped that pods are steered; what was said once holds while Cilium's agent restarts.
func TestHostRouting(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "cilium.sock")
	h := &hostRouting{socket: socket}
	say := func(want string) {
		t.Helper()
		if got := h.problem(t.Context()); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
	}
	say("there is no socket")
	answer := `{"routing": {"intra-host-routing-mode": "Legacy"}}`
	end := ciliumAgent(t, socket, &answer)
	say("")
	end()
	h.asked = time.Time{}
	say("")
	answer = `{"routing": {"intra-host-routing-mode": "BPF"}}`
	end = ciliumAgent(t, socket, &answer)
	say("bpf.hostLegacyRouting=true")
	end()
	h.asked = time.Time{}
	say("bpf.hostLegacyRouting=true")
}

func TestCiliumUnasked(t *testing.T) {
	for _, c := range []struct {
		unasked func(context.Context) (bool, error)
		want    string
	}{
		{nil, ""},
		{func(context.Context) (bool, error) { return false, nil }, ""},
		{func(context.Context) (bool, error) { return true, nil }, "node.cilium=true"},
		{func(context.Context) (bool, error) { return false, errors.New("no cache") }, "no cache"},
	} {
		h := &hostRouting{unasked: c.unasked}
		if got := h.problem(t.Context()); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
