package cli

import (
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/problem"
)

// A change answers with the problems that it made and that stayed; one that was there before, with other figures, is none.
func TestChanging(t *testing.T) {
	dir := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(dir, "a.sock"))
	if err != nil {
		t.Fatal(err)
	}
	old, passing, made := problem.Warning("remote r: 5 packets"), problem.Error("next hop does not answer"), problem.Error("port p1: no interface tap9")
	answers, changed := 0, false
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
		s := api.Status{Name: "a", Problems: []problem.Problem{old}}
		if changed {
			answers++
			s.Problems = []problem.Problem{problem.Warning("remote r: 6 packets"), made, api.Unconfirmed(7, time.Now())}
			if answers < 3 {
				s.Problems = append(s.Problems, passing)
			}
		}
		_ = json.NewEncoder(w).Encode(s)
	})
	server := &http.Server{Handler: mux}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	defer func() { server.Close(); <-done }()
	client := api.Dial(dir, "a")
	info, err := changing(t.Context(), client, time.Millisecond, func() (api.ApplyInfo, error) {
		changed = true
		return api.ApplyInfo{Applied: true}, nil
	})
	if err != nil || len(info.NewProblems) != 1 || info.NewProblems[0] != made {
		t.Errorf("%v (%v), want only %q, which stays", info.NewProblems, err, made.Text)
	}
	if got := status(newErrors(1)); got != exitProblems {
		t.Errorf("exit status %d", got)
	}
}
