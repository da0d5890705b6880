package main

import (
	"net"
	"net/http"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/selvage/selvage/internal/await"
)

// An API server that is away is waited for; the program is alive meanwhile, and leaves the address to its manager.
func TestReach(t *testing.T) {
	var at [2]string
	for i := range at {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at[i] = l.Addr().String()
		l.Close()
	}
	reached := make(chan error, 1)
	go func() { reached <- reach(t.Context(), &rest.Config{Host: "http://" + at[0]}, at[1]) }()
	if err := await.Within(t.Context(), await.Patience, "it is alive", func() error {
		answer, err := http.Get("http://" + at[1] + "/healthz")
		if err == nil {
			answer.Body.Close()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-reached:
		t.Fatalf("it does not wait: %v", err)
	default:
	}
	api := &http.Server{Addr: at[0], Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) })}
	go func() { _ = api.ListenAndServe() }()
	t.Cleanup(func() { api.Close() })
	if err := <-reached; err != nil {
		t.Error(err)
	}
	l, err := net.Listen("tcp", at[1])
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}
