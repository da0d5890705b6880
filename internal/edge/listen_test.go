package edge

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/certificates"
)

// freeAddress is one that nobody listens at.
func freeAddress(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return netip.MustParseAddrPort(l.Addr().String())
}

// signed serves the API at an address by mutual TLS, and metrics at another one.
type signed struct {
	dir        string
	plain, api netip.AddrPort
	client     *api.Client
}

func newSigned(t *testing.T) *signed {
	t.Helper()
	s := &signed{dir: t.TempDir(), plain: freeAddress(t), api: freeAddress(t)}
	ca := certificates.New(t, s.dir, "ca")
	ca.Server("edge", time.Now().Add(30*24*time.Hour))
	ca.Client("deploy", "")
	c, err := api.DialRemote(api.Remote{Address: "https://" + s.api.String(), CAFile: ca.Path(), CertFile: filepath.Join(s.dir, "deploy.pem"), KeyFile: filepath.Join(s.dir, "deploy.key")})
	if err != nil {
		t.Fatal(err)
	}
	s.client = c
	return s
}

func (s *signed) http() *overlay.HTTP {
	return &overlay.HTTP{Metrics: s.plain, API: &overlay.HTTPAPI{
		Addr: s.api, Certificate: filepath.Join(s.dir, "edge.pem"), Key: filepath.Join(s.dir, "edge.key"), ClientCA: filepath.Join(s.dir, "ca.pem"),
	}}
}

// written has the API, and metrics where an address is given.
func (s *signed) written(plain ...netip.AddrPort) string {
	text := written + "  http:\n"
	for _, addr := range plain {
		text += fmt.Sprintf("    metrics: %q\n", addr)
	}
	return text + fmt.Sprintf("    api: {address: %q, certificateFile: %[2]s/edge.pem, keyFile: %[2]s/edge.key, clientCAFile: %[2]s/ca.pem}\n", s.api, s.dir)
}

func isReady(addr netip.AddrPort) bool {
	resp, err := http.Get("http://" + addr.String() + "/readyz")
	return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}

// An edge is asked and changed over TCP, and its listeners follow its configuration: an address in use changes nothing.
func TestListeners(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	busy := netip.MustParseAddrPort(taken.Addr().String())
	s := newSigned(t)
	w := writtenWorld(t, s.written())
	w.run()
	if got := fetched(t, s.client.Status); got.Name != "a" || strings.Contains(fmt.Sprint(got.Problems), "spec.http") {
		t.Errorf("status %+v", got)
	}
	info, err := s.client.Config().Apply(t.Context(), w.query(s.written(s.plain)))
	if err != nil || !info.Applied || info.Revision.By != "deploy at 127.0.0.1" || !isReady(s.plain) {
		t.Errorf("apply: %+v, %v", info, err)
	}
	_, err = s.client.Config().Apply(t.Context(), w.query(s.written(busy)))
	if err == nil || !strings.Contains(err.Error(), busy.String()+" is in use: choose another port") {
		t.Errorf("an address in use: %v", err)
	}
	if f := w.scraped(); f["selvage_config_last_apply_successful"].samples[""] != 0 || f["selvage_http_listener_up"].samples[`listener="metrics"`] != 1 {
		t.Errorf("after a configuration that was refused: %v, %v", f["selvage_config_last_apply_successful"], f["selvage_http_listener_up"])
	}
	if _, err := s.client.Config().Rollback(t.Context(), 1, ""); err != nil || isReady(s.plain) {
		t.Errorf("rollback: %v, and metrics are served", err)
	}
}

// An address that cannot be had at the start is a problem until it can: neither the data path nor the other address waits for
// it, and nor do changes of the rest of the configuration.
func TestListenersAtTheStart(t *testing.T) {
	s := newSigned(t)
	taken, err := net.Listen("tcp4", s.plain.String())
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	w := writtenWorld(t, s.written(s.plain))
	w.opts.Resync = 20 * time.Millisecond
	c, _ := w.run()
	if !w.problem(c, "serve HTTP as spec.http asks", s.plain.String()+" is in use") {
		t.Error("no problem of an address in use")
	}
	if up := w.scraped()["selvage_http_listener_up"].samples; up[`listener="metrics"`] != 0 || up[`listener="api"`] != 1 {
		t.Errorf("up %v", up)
	}
	text := more() + strings.TrimPrefix(s.written(s.plain), written)
	if info, err := s.client.Config().Apply(t.Context(), w.query(text)); err != nil || !info.Applied {
		t.Errorf("apply: %+v, %v", info, err)
	}
	taken.Close()
	w.within("the address is served", func() bool { return isReady(s.plain) })
	w.within("the problem is over", func() bool { return !w.problem(c, "serve HTTP") })
}

// Each change is written down: who, from where, what, and what came of it.
func TestAudit(t *testing.T) {
	w := writtenWorld(t, written)
	log := w.logged()
	c, _ := w.run()
	q := w.query(more())
	if _, err := c.Config().Apply(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	q.Files[0].Text = "nonsense"
	if _, err := c.Config().Apply(t.Context(), q); err == nil {
		t.Fatal("nonsense was applied")
	}
	text := log()
	for _, want := range []string{
		`msg=audit edge=a subsystem=api who=root from="unix socket" method=POST path=/v1/config/apply status=200 outcome=done took=`,
		`msg=audit edge=a subsystem=api who=root from="unix socket" method=POST path=/v1/config/apply status=400 outcome=refused took=`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no line %s in\n%s", want, text)
		}
	}
	if strings.Count(text, "msg=audit") != 2 {
		t.Errorf("more lines than changes:\n%s", text)
	}
}

// logged has the edge log to a text, and returns what it wrote by now.
func (w *world) logged() func() string {
	var mu sync.Mutex
	var text bytes.Buffer
	w.opts.Logger = slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return text.Write(p)
	}), nil))
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return text.String()
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
