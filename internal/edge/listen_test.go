package edge

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
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

const adminToken = "an-admin-token-for-tests"

// listeners are one for health and metrics, over TLS.
func (w *world) listeners() *overlay.HTTP {
	w.t.Helper()
	dir := w.t.TempDir()
	certificates.New(w.t, dir, "ca").Server("edge", time.Now().Add(30*24*time.Hour))
	return &overlay.HTTP{Listeners: []overlay.HTTPListener{{
		Name: "all", Addr: freeAddress(w.t), Serve: []overlay.HTTPService{overlay.ServeHealth, overlay.ServeMetrics},
		TLS: &overlay.ServerTLS{Certificate: filepath.Join(dir, "edge.pem"), Key: filepath.Join(dir, "edge.key")},
	}}}
}

// asked asks the first listener of the configuration for its health. nil is what is well.
func (w *world) asked() error {
	w.mu.Lock()
	addr := w.config.HTTP.Listeners[0].Addr
	w.mu.Unlock()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	resp, err := client.Get("https://" + addr.String() + "/healthz")
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// withHTTP is written with listeners that serve all to a client with a token.
func withHTTP(tokenFile string, addrs ...netip.AddrPort) string {
	text := written + "  http:\n    clients:\n    - {name: deploy, role: admin, tokenFile: " + tokenFile + "}\n    listeners:\n"
	for i, addr := range addrs {
		text += fmt.Sprintf("    - {name: l%d, address: %q, serve: [health, metrics, api]}\n", i, addr)
	}
	return text
}

// An edge is asked and changed over TCP, and its listeners follow its configuration: one that cannot be had changes nothing.
func TestListeners(t *testing.T) {
	a, b := freeAddress(t), freeAddress(t)
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(adminToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := writtenWorld(t, withHTTP(token, a))
	w.run()
	remoteOf := func(addr netip.AddrPort) *api.Client {
		c, err := api.DialRemote(api.Remote{Address: "http://" + addr.String(), TokenFile: token})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	at := remoteOf(a)
	if s := fetched(t, at.Status); s.Name != "a" || len(s.Problems) > 0 && strings.Contains(fmt.Sprint(s.Problems), "spec.http") {
		t.Errorf("status %+v", s)
	}
	info, err := at.Config().Apply(t.Context(), w.query(withHTTP(token, a, b)))
	if err != nil || !info.Applied || info.Revision.By != "deploy at 127.0.0.1" {
		t.Errorf("apply: %+v, %v", info, err)
	}
	fetched(t, remoteOf(b).Status)

	busy := netip.MustParseAddrPort(taken.Addr().String())
	_, err = at.Config().Apply(t.Context(), w.query(withHTTP(token, b, busy)))
	if err == nil || !strings.Contains(err.Error(), busy.String()+" is in use: choose another port") {
		t.Errorf("an address in use: %v", err)
	}
	if f := w.scraped(); f["selvage_config_last_apply_successful"].samples[""] != 0 || f["selvage_http_listener_up"].samples[`listener="l1"`] != 1 {
		t.Errorf("after a configuration that was refused: %v, %v", f["selvage_config_last_apply_successful"], f["selvage_http_listener_up"])
	}
	fetched(t, at.Status)
	fetched(t, remoteOf(b).Status)

	if _, err := remoteOf(b).Config().Apply(t.Context(), w.query(withHTTP(token, b))); err != nil {
		t.Error(err)
	}
	if _, err := at.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing listens there") {
		t.Errorf("an address that went: %v", err)
	}
	if _, err := remoteOf(b).Config().Rollback(t.Context(), 1, ""); err != nil {
		t.Error(err)
	}
	fetched(t, at.Status)
}

// An address that cannot be had at the start is a problem until it can: neither the data path nor other addresses wait for
// it, and nor do changes of the rest of the configuration.
func TestListenersAtTheStart(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr, other := netip.MustParseAddrPort(taken.Addr().String()), freeAddress(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(adminToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := withHTTP(token, addr, other)
	w := writtenWorld(t, text)
	w.opts.Resync = 20 * time.Millisecond
	c, _ := w.run()
	if !w.problem(c, "serve HTTP as spec.http asks", addr.String()+" is in use") {
		t.Error("no problem of an address in use")
	}
	ready := func(addr netip.AddrPort) bool {
		resp, err := http.Get("http://" + addr.String() + "/readyz")
		return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	}
	if up := w.scraped()["selvage_http_listener_up"].samples; !ready(other) || up[`listener="l0"`] != 0 || up[`listener="l1"`] != 1 {
		t.Errorf("the other address is ready %t; up %v", ready(other), up)
	}
	if info, err := c.Config().Apply(t.Context(), w.query(more()+strings.TrimPrefix(text, written))); err != nil || !info.Applied {
		t.Errorf("apply: %+v, %v", info, err)
	}
	taken.Close()
	w.within("the address is served", func() bool { return ready(addr) })
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
		`msg=audit edge=a subsystem=api who=root role=admin from="unix socket" method=POST path=/v1/config/apply status=200 outcome=done took=`,
		`msg=audit edge=a subsystem=api who=root role=admin from="unix socket" method=POST path=/v1/config/apply status=400 outcome=refused took=`,
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
