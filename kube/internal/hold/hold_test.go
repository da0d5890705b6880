package hold_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/kube/internal/hold"
)

func pod(id string) hold.Attachment {
	return hold.Attachment{ID: id, Namespace: "shop", Name: "web", Addresses: []netip.Addr{netip.MustParseAddr("10.1.1.1")}}
}

// serve answers until the test ends, and is the socket.
func serve(t *testing.T, answer func(context.Context, hold.Attachment) hold.Answer) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "run", "s")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- hold.Serve(ctx, socket, answer) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(socket); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the socket is left: %v", err)
		}
	})
	err := await.That(t.Context(), "the socket is there", func() error {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return socket
}

// What is no question is refused, without asking anybody, and the next is answered.
func TestServeRefuses(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	socket := serve(t, func(context.Context, hold.Attachment) hold.Answer {
		asked.Add(1)
		return hold.Answer{State: hold.Programmed}
	})
	address := func(a string) string { return fmt.Sprintf(`{"id":"a","namespace":"n","name":"p","addresses":[%s]}`, a) }
	for what, question := range map[string]string{
		"rubbish":         "GET / HTTP/1.1\r\n\r\n",
		"no object":       "\"x\"\n",
		"empty":           `{}`,
		"too long":        `{"id":"` + strings.Repeat("x", 1<<20),
		"no addresses":    address(""),
		"loopback":        address(`"127.0.0.1"`),
		"multicast":       address(`"ff02::1"`),
		"unspecified":     address(`"0.0.0.0"`),
		"mapped":          address(`"::ffff:10.1.1.1"`),
		"zone":            address(`"fd00::1%eth0"`),
		"many addresses":  address(`"10.1.1.1"` + strings.Repeat(`,"10.1.1.1"`, hold.MostAddresses)),
		"id is a path":    `{"id":"../a","namespace":"n","name":"p","addresses":["10.1.1.1"]}`,
		"long namespace":  `{"id":"a","namespace":"` + strings.Repeat("n", 300) + `","name":"p","addresses":["10.1.1.1"]}`,
		"address no text": address(`1`),
	} {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.WriteString(conn, question) }() // it may not be read to its end
		text, _ := io.ReadAll(conn)
		conn.Close()
		if !strings.Contains(string(text), `"failed"`) {
			t.Errorf("%s: the answer is %q", what, text)
		}
	}
	if asked.Load() != 0 {
		t.Errorf("%d were asked", asked.Load())
	}
	if a, err := hold.Ask(t.Context(), socket, pod("a")); err != nil || a.State != hold.Programmed {
		t.Errorf("%+v, %v", a, err)
	}
}

// Who says nothing does not keep others from an answer, and an answer comes before who asks ceases to wait.
func TestServeSlow(t *testing.T) {
	t.Parallel()
	socket := serve(t, func(ctx context.Context, a hold.Attachment) hold.Answer {
		if a.ID == "quick" {
			return hold.Answer{State: hold.Unselected}
		}
		<-ctx.Done()
		return hold.Answer{State: hold.Failed, Message: "not yet"}
	})
	for range 20 {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), hold.Patience)
	defer cancel()
	if a, err := hold.Ask(ctx, socket, pod("quick")); err != nil || a.State != hold.Unselected {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := hold.Ask(ctx, socket, pod("slow")); err != nil || a.Message != "not yet" {
		t.Errorf("%+v, %v", a, err)
	}
}

// A question that is abandoned keeps nobody waiting.
func TestQuestionAbandoned(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	socket, done, begun, ended := filepath.Join(t.TempDir(), "s"), make(chan error), make(chan bool), make(chan error)
	go func() {
		done <- hold.Serve(ctx, socket, func(ctx context.Context, _ hold.Attachment) hold.Answer {
			begun <- true
			<-ctx.Done()
			ended <- ctx.Err()
			return hold.Answer{State: hold.Failed}
		})
	}()
	var conn net.Conn
	if err := await.That(ctx, "an agent", func() (err error) { conn, err = net.Dial("unix", socket); return err }); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(conn).Encode(pod("a")); err != nil {
		t.Fatal(err)
	}
	<-begun
	conn.Close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the answer ended by %v", err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// An agent takes the place of one that was killed, and only root may ask it.
func TestServeAgain(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	if _, err := hold.Ask(t.Context(), socket, pod("a")); err == nil {
		t.Error("a killed agent answers")
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- hold.Serve(ctx, socket, func(context.Context, hold.Attachment) hold.Answer { return hold.Answer{State: hold.Unselected} })
	}()
	if err := await.That(ctx, "an agent answers", func() error { _, err := hold.Ask(ctx, socket, pod("a")); return err }); err != nil {
		t.Fatal(err)
	}
	if i, err := os.Stat(socket); err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", i.Mode(), err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// So many pods are held and no more; each has its file until it goes.
func TestFiles(t *testing.T) {
	t.Parallel()
	f := hold.Files{Folder: filepath.Join(t.TempDir(), "state")}
	for i := range hold.Most {
		if err := f.Put(pod(fmt.Sprint("c", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Put(pod("more")); err == nil {
		t.Error("there is no end")
	}
	a, since, err := f.Get("c7")
	if err != nil || a.ID != "c7" || a.Addresses[0] != pod("").Addresses[0] || time.Since(since) > time.Hour {
		t.Errorf("%+v, %s, %v", a, since, err)
	}
	for range 2 {
		if err := f.Drop("c7"); err != nil {
			t.Error(err)
		}
	}
	if ids, err := f.List(); err != nil || len(ids) != hold.Most-1 {
		t.Errorf("%d, %v", len(ids), err)
	}
	if err := f.Put(pod("more")); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"mine", ".new-123"} {
		if err := os.WriteFile(filepath.Join(f.Folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := f.Remove(); err != nil {
			t.Error(err)
		}
	}
	if entries, err := os.ReadDir(f.Folder); err != nil || len(entries) != 1 || entries[0].Name() != "mine" {
		t.Errorf("left: %v, %v", entries, err)
	}
	if err := errors.Join(os.Remove(filepath.Join(f.Folder, "mine")), f.Remove()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(f.Folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left: %v", err)
	}
}

// What policies select is written when it changes only, whole, and read as it was.
func TestSelects(t *testing.T) {
	t.Parallel()
	f := hold.Files{Folder: t.TempDir()}
	if _, err := f.Selects(); !errors.Is(err, fs.ErrNotExist) || f.Installed() {
		t.Errorf("without a file: %v", err)
	}
	s := hold.Selects{Namespaces: map[string]string{"shop": hold.Drop, "free": hold.Free}, Others: hold.Node, Rule: 90, Table: 7789, Cluster: []netip.Prefix{netip.MustParsePrefix("fd00::/8")}}
	path := filepath.Join(f.Folder, "selects.json")
	write := func() fs.FileInfo {
		if err := f.WriteSelects(s); err != nil {
			t.Fatal(err)
		}
		i, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	if first := write(); !os.SameFile(first, write()) {
		t.Error("it is written without a change")
	}
	got, err := f.Selects()
	if err != nil || fmt.Sprint(got) != fmt.Sprint(s) {
		t.Errorf("%+v, %v", got, err)
	}
	for namespace, want := range map[string]string{"shop": hold.Drop, "free": hold.Free, "new": hold.Node} {
		if got.Verdict(namespace) != want {
			t.Errorf("%s: %q", namespace, got.Verdict(namespace))
		}
	}
	if entries, err := os.ReadDir(f.Folder); err != nil || len(entries) != 1 {
		t.Errorf("left: %v, %v", entries, err)
	}
}
