package edge

import (
	"context"
	"log/slog"

	"github.com/selvage/selvage/internal/background"
)

// lossTeller is a host that says at once which link was lost, by its index.
type lossTeller interface{ LinksLost() <-chan int }

// linkedLiveness is liveness whose sessions end with their links. Flows so leave a link that is lost as they
// leave a dead path: without looking at the host.
type linkedLiveness struct {
	Liveness
	end func()
}

// withLinks has liveness know at once of the links that h loses.
func withLinks(open func(*slog.Logger) (Liveness, error), h Host) func(*slog.Logger) (Liveness, error) {
	host, ok := h.(lossTeller)
	if !ok {
		return open
	}
	return func(log *slog.Logger) (Liveness, error) {
		monitor, err := open(log)
		if err != nil {
			return nil, err
		}
		sessions, ok := monitor.(interface{ LinkLost(ifindex int) })
		if !ok {
			return monitor, nil
		}
		return linkedLiveness{monitor, background.Start(context.Background(), func(ctx context.Context) {
			for {
				select {
				case <-ctx.Done():
					return
				case ifindex := <-host.LinksLost():
					sessions.LinkLost(ifindex)
				}
			}
		})}, nil
	}
}

// Close implements Liveness.
func (l linkedLiveness) Close() error {
	l.end()
	return l.Liveness.Close()
}
