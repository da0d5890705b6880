package apiserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/event"
)

// serveEvents serves those of a log on a socket.
func serveEvents(t *testing.T) (log *event.Log, v *events, c *api.Client, dial func() net.Conn) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.sock")
	l, err := Listen(path, "")
	if err != nil {
		t.Fatal(err)
	}
	log = event.New()
	v = &events{log: log}
	srv := Serve(l, http.HandlerFunc(v.handler), slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		log.End()
		begin := time.Now()
		if err := srv.Stop(); err != nil || time.Since(begin) > stopTimeout/2 {
			t.Errorf("the end took %s: %v", time.Since(begin), err)
		}
	})
	return log, v, api.Dial(dir, "a"), func() net.Conn {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
}

func TestEvents(t *testing.T) {
	log, _, c, _ := serveEvents(t)
	for i := range 10 {
		log.Add(event.Event{Kind: []event.Kind{event.LinkUp, event.LinkDown}[i%2], Text: fmt.Sprint(i)})
	}
	list, err := c.Log().Events(t.Context(), api.EventQuery{Filter: event.Filter{Kinds: []event.Kind{event.LinkDown}, After: 2}, Limit: 3})
	if err != nil || len(list.Events) != 3 || list.Events[0].Text != "5" || list.Events[2].Text != "9" || list.Next != 10 || list.Missed != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err = c.Log().Events(t.Context(), api.EventQuery{Filter: event.Filter{After: 10}}); err != nil || list.Events == nil || len(list.Events) != 0 {
		t.Errorf("nothing new: %+v, %v", list, err)
	}
	_, err = c.Log().Events(t.Context(), api.EventQuery{Filter: event.Filter{Kinds: []event.Kind{"none"}}})
	var wrong *api.QueryError
	if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "link-up") {
		t.Errorf("an unknown kind: %v", err)
	}
}

// Who follows gets what happens when it happens, and the end when the edge stops.
func TestFollowEvents(t *testing.T) {
	log, v, c, _ := serveEvents(t)
	got, ended := make(chan api.FollowedEvent), make(chan error, 1)
	go func() {
		last, err := c.Log().Follow(t.Context(), api.EventQuery{Filter: event.Filter{Object: "eth0"}}, func(f api.FollowedEvent) error {
			got <- f
			return nil
		})
		if last != 4 {
			t.Errorf("the last was %d", last)
		}
		ended <- err
	}()
	if err := await.That(t.Context(), "a follower", func() error {
		if v.followers.Load() != 1 {
			return errors.New("none")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"eth1", "eth0", "eth1", "eth0"} {
		log.Add(event.Event{Kind: event.LinkUp, Object: event.Object{Type: "interface", Name: name}})
		if name == "eth0" {
			if f := <-got; f.Event == nil || f.Event.Number != uint64(i+1) {
				t.Errorf("got %+v, want event %d", f, i+1)
			}
		}
	}
	log.End()
	if err := <-ended; err != nil {
		t.Errorf("the end: %v", err)
	}
}

// A follower that reads nothing keeps nobody waiting, is let go, and learns how much it missed.
func TestHungFollower(t *testing.T) {
	log, v, _, dial := serveEvents(t)
	conn := dial()
	fmt.Fprint(conn, "GET /v1/events?follow=true HTTP/1.1\r\nHost: edge\r\nAccept: text/event-stream\r\nLast-Event-ID: 0\r\n\r\n")
	const many = 50000
	text := strings.Repeat("x", 800)
	begin := time.Now()
	for range many {
		log.Add(event.Event{Kind: event.LinkUp, Text: text})
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("%d events took %s while a follower hung", many, took)
	}
	missed, numbers := uint64(0), uint64(0)
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(conn); missed+numbers < many && lines.Scan(); {
		var n uint64
		if strings.HasPrefix(lines.Text(), "id: ") {
			numbers++
		}
		if _, err := fmt.Sscanf(lines.Text(), `data: {"missed":%d}`, &n); err == nil {
			missed += n
		}
	}
	if missed == 0 || missed+numbers != many {
		t.Errorf("%d came and %d were missed, want %d in all", numbers, missed, many)
	}
	conn.Close()
	log.Add(event.Event{Kind: event.LinkUp})
	if err := await.That(t.Context(), "the follower to go", func() error {
		if n := v.followers.Load(); n != 0 {
			return fmt.Errorf("%d are left", n)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// There are so many followers at most, and the one that is too many is told.
func TestManyFollowers(t *testing.T) {
	_, _, c, dial := serveEvents(t)
	for range mostFollowers {
		conn := dial()
		defer conn.Close()
		fmt.Fprint(conn, "GET /v1/events?follow=true HTTP/1.1\r\nHost: edge\r\n\r\n")
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("%q, %v", line, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := c.Log().Follow(ctx, api.EventQuery{}, func(api.FollowedEvent) error { return io.EOF })
	if err == nil || !strings.Contains(err.Error(), "64 others follow") {
		t.Errorf("one too many: %v", err)
	}
}
