package gateway

import (
	"context"
	"time"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/overlay"
)

// drainIdle is for how long no session may have had a packet before a drain is over. Data
// packets are known with a delay of up to 10 s.
const drainIdle = 20 * time.Second

// SetDrain makes the wish known that this edge gives its work away, or with nil its end.
// Move obeys it.
func (r *Role) SetDrain(ctx context.Context, d *Drain) {
	r.mu.Lock()
	r.drain = d
	r.mu.Unlock()
	if d == nil {
		r.log.InfoContext(ctx, "egress drain ended", event.Is(event.DrainEnded))
		return
	}
	r.log.InfoContext(ctx, "egress drain started", event.Is(event.DrainStarted), "deadline", d.Deadline)
}

// WatchDrain ends a drain when no connection uses this edge any more.
func (r *Role) WatchDrain(sessions NAT) error {
	r.mu.Lock()
	d := r.drain
	r.mu.Unlock()
	if d == nil || d.Done {
		return nil
	}
	active := 0
	err := sessions.WithSessions(func(_ overlay.Edge, all Sessions) error {
		return all.EachNATSession(func(b *datapath.NATSession) bool {
			if !b.Replica && !b.Mapping && b.IdleNS < uint64(drainIdle) {
				active++
			}
			return true
		})
	})
	if err != nil {
		return err
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.drain != d {
		return nil
	}
	r.active = active
	if active == 0 && now.Sub(d.Asked) >= drainIdle || !now.Before(d.Deadline) {
		done := *d
		done.Done = true
		r.drain = &done
		r.log.Info("egress drain is over", event.Is(event.DrainDone), "active", active)
		r.Wake()
	}
	return nil
}
