// Package ciliumtest stands in for the Cilium agent of a node.
package ciliumtest

import (
	"context"
	"net"
	"net/http"
	"testing"
)

// Serve has an agent at a socket answer what it is asked about its status, until the test ends or end is called.
func Serve(t testing.TB, socket string, answer func() (status int, text string)) (end func()) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/healthz", func(w http.ResponseWriter, _ *http.Request) {
		status, text := answer()
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	})
	server := &http.Server{Handler: mux} //nolint:gosec // of a test
	go func() { _ = server.Serve(l) }()
	end = func() { _ = server.Close() }
	t.Cleanup(end)
	return end
}
