package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/event"
)

const (
	// mostFollowers follow events at the same time. Each costs a connection and a goroutine.
	mostFollowers = 64
	// followBatch is how many events are written at once, and heartbeat how often a follower hears from an edge where nothing
	// happens.
	followBatch = 100
	heartbeat   = 15 * time.Second
)

// events answers about them. The log has no buffer for anybody: who is too slow misses what is no longer kept, and is told.
type events struct {
	log       *event.Log
	followers atomic.Int32
}

func (v *events) handler(w http.ResponseWriter, r *http.Request) {
	if !isRead(w, r) {
		return
	}
	q, err := api.EventQueryOf(r.URL.Query())
	if err != nil {
		reply(w, nil, err)
		return
	}
	if !q.Follow {
		b := v.log.Read(event.Filter{After: q.After}, 0)
		reply(w, api.EventList{Events: q.Choose(b.Events), Next: b.Next, Missed: b.Missed}, nil)
		return
	}
	if v.followers.Add(1) > mostFollowers {
		v.followers.Add(-1)
		w.Header().Set("Retry-After", "10")
		api.Answer(w, http.StatusServiceUnavailable, api.Refusal{Error: fmt.Sprintf("%d others follow events already, which is the most: end some of them", mostFollowers)})
		return
	}
	defer v.followers.Add(-1)
	write, kind := writeLine, api.LinesType
	if strings.Contains(r.Header.Get("Accept"), api.SSEType) {
		write, kind = writeSSE, api.SSEType
		if last, err := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64); err == nil {
			q.After = last
		}
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	v.follow(r.Context(), w, q.Filter, write)
}

// follow writes events until the follower goes or the edge stops.
func (v *events) follow(ctx context.Context, w http.ResponseWriter, f event.Filter, write func(*bytes.Buffer, api.FollowedEvent)) {
	flush := http.NewResponseController(w)
	if flush.Flush() != nil { // who follows knows that it does, before anything happens
		return
	}
	var text bytes.Buffer
	for more := true; more; {
		waiting, cancel := context.WithTimeout(ctx, heartbeat)
		b, next, err := v.log.Wait(waiting, f, followBatch)
		cancel()
		if ctx.Err() != nil {
			return
		}
		f.After, more = b.Next, next
		text.Reset()
		if b.Missed > 0 {
			write(&text, api.FollowedEvent{Missed: b.Missed})
		}
		for i := range b.Events {
			write(&text, api.FollowedEvent{Event: &b.Events[i]})
		}
		if errors.Is(err, context.DeadlineExceeded) {
			text.WriteString("\n") // which means nothing in either format
		}
		if _, err := w.Write(text.Bytes()); err != nil {
			return
		}
		if flush.Flush() != nil {
			return
		}
	}
}

func writeLine(text *bytes.Buffer, f api.FollowedEvent) {
	_ = json.NewEncoder(text).Encode(f) // of texts, numbers and booleans
}

// writeSSE has numbers be those that a client asks on from.
func writeSSE(text *bytes.Buffer, f api.FollowedEvent) {
	if f.Event == nil {
		fmt.Fprintf(text, "event: missed\ndata: {\"missed\":%d}\n\n", f.Missed)
		return
	}
	fmt.Fprintf(text, "id: %d\nevent: %s\ndata: ", f.Event.Number, f.Event.Kind)
	_ = json.NewEncoder(text).Encode(f.Event)
	text.WriteString("\n")
}
