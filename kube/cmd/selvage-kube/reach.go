package main

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// reachEach is between two tries.
const reachEach = 2 * time.Second

// reach waits until the API server answers: a program that ended instead would be started again later and later, up to five minutes.
// Meanwhile it is alive at an address of health, if there is one.
func reach(ctx context.Context, by *rest.Config, health string) error {
	c, err := discovery.NewDiscoveryClientForConfig(by)
	if err != nil {
		return err
	}
	if health != "" {
		alive := &http.Server{Addr: health, ReadHeaderTimeout: reachEach, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
		ended := make(chan struct{})
		go func() { defer close(ended); _ = alive.ListenAndServe() }() // the manager says why its own cannot listen
		defer func() { _ = alive.Close(); <-ended }()
	}
	for {
		err := c.RESTClient().Get().AbsPath("/api").Do(ctx).Error()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		slog.Warn("the API server does not answer; it is asked again", "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(reachEach):
		}
	}
}
