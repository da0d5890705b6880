package stream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// echo is a process that writes what it reads, until its input ends.
type echo struct{}

func (echo) AttachContainer(ctx context.Context, _, _, container string, in io.Reader, out, errs io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize) error {
	if container == "deaf" {
		<-ctx.Done()
		return ctx.Err()
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if lines.Text() == "fail" {
			fmt.Fprintln(errs, "it does not work")
			return errors.New("exit status 1")
		}
		fmt.Fprintln(out, container, lines.Text())
	}
	return nil
}

// served is an API server whose way knows WebSockets, or not.
func served(t *testing.T, sockets bool) *rest.Config {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "websocket" && !sockets {
			http.Error(w, "no such protocol", http.StatusBadRequest)
			return
		}
		if r.URL.Path != "/api/v1/namespaces/s/pods/p/attach" {
			http.NotFound(w, r)
			return
		}
		container := r.URL.Query().Get("container")
		remotecommand.ServeAttach(w, r.WithContext(ctx), echo{}, "p", "", container, &remotecommand.Options{Stdin: true, Stdout: true, Stderr: true}, time.Minute, time.Minute, remotecommand.SupportedStreamingProtocols)
	}))
	t.Cleanup(func() { cancel(); server.Close() })
	return &rest.Config{Host: server.URL}
}

// What is written is read by the process, and the other way round; the end of the input is the end of the connection.
func TestAttach(t *testing.T) {
	for _, sockets := range []bool{true, false} {
		c, err := Attach(served(t, sockets), "s", "p", "c")
		if err != nil {
			t.Fatal(err)
		}
		out := bufio.NewReader(c.Out)
		for _, word := range []string{"one", "two"} {
			if _, err := fmt.Fprintln(c.In, word); err != nil {
				t.Error(err)
			}
			if line, err := out.ReadString('\n'); err != nil || line != "c "+word+"\n" {
				t.Errorf("WebSockets %t: %q, %v", sockets, line, err)
			}
		}
		if err := c.Wait(); err != nil {
			t.Errorf("WebSockets %t: %v", sockets, err)
		}
		if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
			t.Errorf("WebSockets %t: %q, %v", sockets, rest, err)
		}
		if _, err := fmt.Fprintln(c.In, "three"); err == nil {
			t.Error("one can write to a connection that has ended")
		}
	}
}

// What a process says of its failure, that there is none, and that somebody does not want to wait.
func TestEnds(t *testing.T) {
	config := served(t, true)
	c, err := Attach(config, "s", "p", "c")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(c.In, "fail")
	if _, err := io.ReadAll(c.Out); err != nil {
		t.Error(err)
	}
	if err := c.Wait(); err == nil || !strings.Contains(err.Error(), "exit status 1") || c.Said() != "it does not work" {
		t.Errorf("%v: %s", err, c.Said())
	}
	if c, err = Attach(config, "s", "none", "c"); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err == nil {
		t.Error("there is no such pod")
	}
	if c, err = Attach(config, "s", "p", "deaf"); err != nil {
		t.Fatal(err)
	}
	c.Kill()
	c.Kill()
	if err := c.Wait(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
