package listeners

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/apiserver"
	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/metrics"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/certificates"
)

// fixture is a set whose handler answers with who asks.
type fixture struct {
	t   *testing.T
	dir string
	ca  *certificates.Authority
	set *Set
}

func newFixture(t *testing.T) *fixture {
	g := &fixture{t: t, dir: t.TempDir()}
	g.ca = certificates.New(t, g.dir, "ca")
	g.ca.Server("edge", time.Now().Add(30*24*time.Hour))
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := apiserver.IdentityOf(r)
		fmt.Fprintf(w, "%s at %s, change %t", id.Name, id.From, id.MayChange)
	})
	g.set = New(echo, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := g.set.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func (g *fixture) path(name string) string { return filepath.Join(g.dir, name) }

func (g *fixture) api(addr netip.AddrPort) *overlay.HTTPAPI {
	return &overlay.HTTPAPI{Addr: addr, Certificate: g.path("edge.pem"), Key: g.path("edge.key"), ClientCA: g.ca.Path()}
}

func (g *fixture) listen(config *overlay.HTTP) {
	g.t.Helper()
	if err := g.set.Prepare(config); err != nil {
		g.t.Fatal(err)
	}
	g.set.Commit()
}

func (g *fixture) client(certs ...tls.Certificate) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: g.ca.Pool(), Certificates: certs}}}
}

func free(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return netip.MustParseAddrPort(l.Addr().String())
}

func ask(client *http.Client, url string) (int, string, error) {
	resp, err := client.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// Only a certificate of the authority opens the API; metrics and health are in the clear, and nothing else is.
func TestWhoAsks(t *testing.T) {
	g := newFixture(t)
	plain, api := free(t), free(t)
	g.listen(&overlay.HTTP{Metrics: plain, API: g.api(api)})
	stranger := certificates.New(t, t.TempDir(), "other")
	for _, c := range []struct {
		url   string
		certs []tls.Certificate
		code  int
		want  string // of the answer or the error
	}{
		{"https://" + api.String() + "/v1/status", []tls.Certificate{g.ca.Client("deploy", "")}, 200, "deploy at 127.0.0.1, change true"},
		{"https://" + api.String() + "/metrics", []tls.Certificate{g.ca.Client("", "spiffe://example.org/prometheus")}, 200, "spiffe://example.org/prometheus at 127.0.0.1, change true"},
		{"https://" + api.String() + "/v1/status", nil, 0, "certificate required"},
		{"https://" + api.String() + "/healthz", []tls.Certificate{stranger.Client("deploy", "")}, 0, "tls:"},
		{"http://" + api.String() + "/v1/status", nil, 400, "HTTPS"},
		{"http://" + plain.String() + "/metrics", nil, 200, "anonymous at 127.0.0.1, change false"},
		{"http://" + plain.String() + "/healthz", nil, 200, "anonymous"},
		{"http://" + plain.String() + "/readyz", nil, 200, "anonymous"},
		{"http://" + plain.String() + "/v1/status", nil, 404, "spec.http.api serves the API"},
		{"http://" + plain.String() + "/v1/../metrics/x", nil, 404, ""},
	} {
		code, body, err := ask(g.client(c.certs...), c.url)
		if err != nil {
			body = err.Error()
		}
		if code != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s with %d certificates: %d %s; want %d %s", c.url, len(c.certs), code, body, c.code, c.want)
		}
	}
	resp, err := http.Post("http://"+plain.String()+"/metrics", "text/plain", nil)
	if err != nil || resp.StatusCode == http.StatusOK {
		t.Errorf("a POST to metrics: %v, %v", resp, err)
	}
}

// Files that change are read again, and those that are refused leave the certificate before.
func TestRotation(t *testing.T) {
	g := newFixture(t)
	addr := free(t)
	g.listen(&overlay.HTTP{API: g.api(addr)})
	deploy := g.ca.Client("deploy", "")
	ends := func() time.Time {
		t.Helper()
		c, err := tls.Dial("tcp", addr.String(), &tls.Config{RootCAs: g.ca.Pool(), ServerName: "localhost", Certificates: []tls.Certificate{deploy}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].NotAfter
	}
	look := func(want string) {
		t.Helper()
		g.set.Look()
		if got := fmt.Sprint(g.set.Problems(time.Now())); want == "" && got != "[]" || !strings.Contains(got, want) {
			t.Errorf("problems %s; want %q", got, want)
		}
	}
	later := time.Now().Add(60 * 24 * time.Hour).Truncate(time.Second)
	g.ca.Server("edge", later)
	look("")
	if got := ends(); !got.Equal(later) {
		t.Errorf("the certificate ends at %s, want %s", got, later)
	}
	if err := os.WriteFile(g.path("edge.key"), []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	look("the certificate is refused, the one before stays")
	g.ca.Server("edge", time.Now().Add(-time.Minute))
	look("the certificate ended at")
	if got := ends(); !got.Equal(later) {
		t.Errorf("the certificate ends at %s, want %s", got, later)
	}
	g.ca.Server("edge", time.Now().Add(time.Hour))
	look("the certificate ends at")
	certificates.New(t, g.dir, "ca") // another authority of that name
	look("the certificate ends at")
	if code, body, err := ask(g.client(deploy), "https://"+addr.String()+"/v1/status"); err == nil {
		t.Errorf("a client of the former authority: %d %s", code, body)
	}
}

// A configuration comes into force whole or not at all; connections to an address that stays go on.
func TestReplacement(t *testing.T) {
	g := newFixture(t)
	a, b, c, taken := free(t), free(t), free(t), free(t)
	other, err := net.Listen("tcp4", taken.String())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	answers := func(addr netip.AddrPort) bool {
		_, _, err := ask(g.client(), "http://"+addr.String()+"/healthz")
		return err == nil
	}
	g.listen(&overlay.HTTP{Metrics: a})
	missing := g.api(b)
	missing.ClientCA = g.path("none")
	for want, config := range map[string]*overlay.HTTP{
		"spec.http.metrics: " + taken.String() + " is in use: choose another port": {Metrics: taken, API: g.api(b)},
		"192.0.2.77:9: this host has no such address":                              {Metrics: netip.MustParseAddrPort("192.0.2.77:9")},
		"spec.http.api: open ": {API: missing},
	} {
		if err := g.set.Prepare(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if !answers(a) || answers(b) {
			t.Error("what was in force is no longer in force")
		}
	}
	conn, err := net.Dial("tcp", a.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	both := &overlay.HTTP{Metrics: a, API: g.api(b)}
	g.listen(both)
	if !answers(a) || !g.set.IsFor(both) || !g.set.IsWhole() {
		t.Error("the new configuration is not in force")
	}
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(text), "HTTP/1.0 200 ") {
		t.Errorf("a connection from before: %q, %v", text, err)
	}
	g.listen(&overlay.HTTP{Metrics: c})
	if answers(a) || !answers(c) {
		t.Error("the former address is served, or the new one is not")
	}
	g.listen(nil)
	if answers(c) {
		t.Error("an address is served that is not configured")
	}
}

// One listener that fails keeps no other from coming up, and is tried again.
func TestSomeListeners(t *testing.T) {
	g := newFixture(t)
	plain, api := free(t), free(t)
	other, err := net.Listen("tcp4", plain.String())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	config := &overlay.HTTP{Metrics: plain, API: g.api(api)}
	try := func(metricsUp int, want string) {
		t.Helper()
		if err := g.set.PrepareSome(config); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("error %v, want %s", err, want)
		}
		g.set.Commit()
		answer := httptest.NewRecorder()
		metrics.Handler(func() []*metrics.Page {
			p := new(metrics.Page)
			g.set.Metrics(p)
			return []*metrics.Page{p}
		}, nil).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		for name, up := range map[string]int{"metrics": metricsUp, "api": 1} {
			if line := fmt.Sprintf("selvage_http_listener_up{listener=%q} %d\n", name, up); !strings.Contains(answer.Body.String(), line) {
				t.Errorf("no %s in\n%s", line, answer.Body)
			}
		}
		if g.set.IsWhole() != (metricsUp == 1) {
			t.Errorf("whole %t", g.set.IsWhole())
		}
	}
	try(0, "spec.http.metrics: "+plain.String()+" is in use")
	if err := os.WriteFile(g.path("edge.pem"), nil, 0o600); err != nil { // the listener that is up keeps its certificate
		t.Fatal(err)
	}
	other.Close()
	try(1, "nil")
	if code, body, err := ask(g.client(g.ca.Client("deploy", "")), "https://"+api.String()+"/v1/status"); err != nil || code != http.StatusOK {
		t.Errorf("%d %s, %v", code, body, err)
	}
}

// Silent connections are few, and are closed.
func TestConnectionsAreFew(t *testing.T) {
	t.Parallel()
	g := newFixture(t)
	addr := free(t)
	g.listen(&overlay.HTTP{API: g.api(addr)})
	for range mostOfOneAddress + 10 {
		c, err := net.Dial("tcp", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	l := g.set.inForce["api"]
	for _, wait := range []struct {
		what    string
		open    int
		refused uint64
	}{{"connections are refused", mostOfOneAddress, 10}, {"silent connections are closed", 0, 10}} {
		if err := await.Within(t.Context(), await.Patience, wait.what, func() error {
			if n := l.refused.Load(); n != wait.refused || l.connections() != wait.open {
				return fmt.Errorf("%d connections, %d refused", l.connections(), n)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}
