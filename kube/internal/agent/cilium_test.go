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

	"github.com/selvage/selvage/test/ciliumtest"
)

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
	serve := func(answer string) (end func()) {
		return ciliumtest.Serve(t, socket, func() (int, string) { return http.StatusOK, answer })
	}
	end := serve(`{"routing": {"intra-host-routing-mode": "Legacy"}}`)
	say("")
	end()
	h.asked = time.Time{}
	say("")
	end = serve(`{"routing": {"intra-host-routing-mode": "BPF"}}`)
	say("") // it was asked just now, in vain, and is left alone for a while
	h.asked = time.Time{}
	say("bpf.hostLegacyRouting=true")
	end()
	h.asked = time.Time{}
	say("bpf.hostLegacyRouting=true")
}

// One that takes the question and does not answer holds nobody up for long.
func TestCiliumIsSilent(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "cilium.sock")
	silent, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	began := time.Now()
	if got := (&hostRouting{socket: socket}).problem(t.Context()); !strings.Contains(got, "no answer at "+socket) {
		t.Errorf("%q", got)
	}
	if took := time.Since(began); took < ciliumMost {
		t.Errorf("it was asked for %s", took)
	}
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
