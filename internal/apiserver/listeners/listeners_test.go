package listeners

import (
	"bytes"
	"context"
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
	"sync"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/apiserver"
	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/metrics"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/certificates"
)

const token, otherToken = "0123456789abcdef-first", "0123456789abcdef-second"

// fixture is a set of listeners with certificates, and a log.
type fixture struct {
	t   *testing.T
	dir string
	ca  *certificates.Authority
	set *Set
	log syncBuffer
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newFixture(t *testing.T) *fixture {
	g := &fixture{t: t, dir: t.TempDir()}
	g.ca = certificates.New(t, g.dir, "ca")
	g.ca.Server("edge", time.Now().Add(30*24*time.Hour))
	g.write("token", token+"\n")
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := apiserver.IdentityOf(r)
		fmt.Fprintf(w, "%s is %s at %s", id.Name, id.Role, id.From)
	})
	g.set = New(echo, slog.New(slog.NewTextHandler(&g.log, nil)))
	t.Cleanup(func() {
		if err := g.set.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func (g *fixture) write(name, text string) {
	g.t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, name), []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func (g *fixture) path(name string) string { return filepath.Join(g.dir, name) }

// free is an address that nobody listens at.
func free(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return netip.MustParseAddrPort(l.Addr().String())
}

// config has one listener for all, over TLS, and clients of each kind.
func (g *fixture) config(addr netip.AddrPort) *overlay.HTTP {
	return &overlay.HTTP{
		Listeners: []overlay.HTTPListener{{
			Name: "all", Addr: addr, Serve: []overlay.HTTPService{overlay.ServeHealth, overlay.ServeMetrics, overlay.ServeAPI}, Authenticated: true,
			TLS: &overlay.ServerTLS{Certificate: g.path("edge.pem"), Key: g.path("edge.key"), ClientCA: g.ca.Path()},
		}},
		Clients: []overlay.HTTPClient{
			{Name: "scraper", Role: overlay.RoleRead, TokenFile: g.path("token")},
			{Name: "boss", Role: overlay.RoleAdmin, Certificate: &overlay.ClientCertificate{CommonName: "boss"}},
			{Name: "shift", Role: overlay.RoleOperate, Certificate: &overlay.ClientCertificate{CommonName: "shift", URI: "spiffe://example.org/shift"}},
		},
	}
}

func (g *fixture) listen(config *overlay.HTTP) {
	g.t.Helper()
	if err := g.set.Prepare(config); err != nil {
		g.t.Fatal(err)
	}
	g.set.Commit()
}

// asks is what somebody gets.
func (g *fixture) asks(addr netip.AddrPort, path, token string, certs ...tls.Certificate) (int, string) {
	g.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: g.ca.Pool(), Certificates: certs}}}
	code, body, err := ask(client, "https://"+addr.String()+path, token)
	if err != nil {
		g.t.Fatal(err)
	}
	return code, body
}

func ask(client *http.Client, url, token string) (int, string, error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// Clients are known by token or certificate, and nobody else is let in; health needs nobody.
func TestWhoAsks(t *testing.T) {
	g := newFixture(t)
	addr := free(t)
	g.listen(g.config(addr))
	stranger := certificates.New(t, t.TempDir(), "other")
	boss, shift, half := g.ca.Client("boss", ""), g.ca.Client("shift", "spiffe://example.org/shift"), g.ca.Client("shift", "")
	for _, c := range []struct {
		name, path, token string
		certs             []tls.Certificate
		code              int
		body              string
	}{
		{"token", "/v1/status", token, nil, 200, "scraper is read at 127.0.0.1"},
		{"certificate", "/v1/status", "", []tls.Certificate{boss}, 200, "boss is admin at 127.0.0.1"},
		{"certificate with two names", "/v1/status", "", []tls.Certificate{shift}, 200, "shift is operate at 127.0.0.1"},
		{"certificate with one of two names", "/v1/status", "", []tls.Certificate{half}, 401, "say who you are"},
		{"certificate beside a token", "/metrics", token, []tls.Certificate{half}, 200, "scraper is read"},
		{"nobody", "/metrics", "", nil, 401, "say who you are"},
		{"nobody for health", "/readyz", "", nil, 200, "somebody is  at 127.0.0.1"},
		{"wrong token", "/v1/status", token + "x", nil, 401, "say who you are"},
		{"part of a token", "/v1/status", token[:10], nil, 401, "say who you are"},
	} {
		if code, body := g.asks(addr, c.path, c.token, c.certs...); code != c.code || !strings.Contains(body, c.body) {
			t.Errorf("%s: %d %s, want %d %s", c.name, code, body, c.code, c.body)
		}
	}
	foreign := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: g.ca.Pool(), Certificates: []tls.Certificate{stranger.Client("boss", "")}}}}
	if code, body, err := ask(foreign, "https://"+addr.String()+"/v1/status", ""); err == nil && code != 401 {
		t.Errorf("a certificate of another authority: %d %s", code, body)
	}
	if text := g.log.String(); strings.Contains(text, token) || strings.Contains(text, token[:10]) {
		t.Errorf("a token is in the log:\n%s", text)
	}
}

// A listener serves what it is configured to serve, and metrics to everybody when that is so.
func TestServes(t *testing.T) {
	g := newFixture(t)
	addr := free(t)
	g.listen(&overlay.HTTP{Listeners: []overlay.HTTPListener{{Name: "m", Addr: addr, Serve: []overlay.HTTPService{overlay.ServeMetrics}}}})
	for path, want := range map[string]string{
		"/metrics": "200 somebody is read at 127.0.0.1", "/healthz": "404 ", "/v1/status": "404 ", "/v1/config/apply": "404 ", "/": "404 ",
	} {
		code, body, err := ask(http.DefaultClient, "http://"+addr.String()+path, "")
		if got := fmt.Sprint(code, " ", body); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, %v; want %s", path, got, err, want)
		}
	}
}

// Guessing is slow: an address that failed often is not listened to, also with the right token; a certificate is.
func TestGuessing(t *testing.T) {
	g := newFixture(t)
	addr := free(t)
	g.listen(g.config(addr))
	boss := g.ca.Client("boss", "")
	for i := range mostFailures {
		if code, _ := g.asks(addr, "/v1/status", fmt.Sprint("guess-", i)); code != 401 {
			t.Fatalf("guess %d: %d", i, code)
		}
	}
	if code, _ := g.asks(addr, "/v1/status", token); code != 429 {
		t.Errorf("after %d guesses: %d", mostFailures, code)
	}
	if code, body := g.asks(addr, "/v1/status", "", boss); code != 200 {
		t.Errorf("with a certificate: %d %s", code, body)
	}
	if n := strings.Count(g.log.String(), "a request is refused"); n == 0 || n > 3 {
		t.Errorf("%d lines of the log for %d guesses:\n%s", n, mostFailures, g.log.String())
	}
	g.set.strangers.list[networkOf(netip.MustParseAddr("127.0.0.1"))] = allowance{0, time.Now().Add(-2 * failureEvery)}
	if code, _ := g.asks(addr, "/v1/status", token); code != 200 {
		t.Errorf("later: %d", code)
	}
}

func TestStrangersAreFew(t *testing.T) {
	var s strangers
	now := time.Now()
	for i := range 3 * mostStrangers {
		s.fail(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), now)
	}
	if len(s.list) > mostStrangers {
		t.Errorf("%d strangers are remembered", len(s.list))
	}
	a, b := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	for range mostFailures {
		s.fail(a, now)
	}
	if !s.isBarred(b, now) || s.isBarred(b, now.Add(time.Minute)) {
		t.Error("the addresses of one IPv6 network are not one")
	}
}

// Certificates and tokens rotate while connections go on; what is wrong is refused, is a problem, and the old ones stay.
func TestRotation(t *testing.T) {
	g := newFixture(t)
	addr := free(t)
	config := g.config(addr)
	g.listen(config)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: g.ca.Pool()}}}
	conn := 0
	asks := func(token string) (int, string) {
		t.Helper()
		code, body, err := ask(client, "https://"+addr.String()+"/v1/status", token)
		if err != nil {
			t.Fatal(err)
		}
		conn = g.set.inForce[addr].connections()
		return code, body
	}
	ends := func() time.Time {
		t.Helper()
		c, err := tls.Dial("tcp", addr.String(), &tls.Config{RootCAs: g.ca.Pool(), ServerName: "localhost"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].NotAfter
	}
	problems := func() (text string) {
		for _, p := range g.set.Problems(time.Now()) {
			text += p.Text + "\n"
		}
		return text
	}
	if code, body := asks(token); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	first := ends()

	later := time.Now().Add(60 * 24 * time.Hour).Truncate(time.Second)
	g.ca.Server("edge", later)
	g.write("token", token+"\n\n"+otherToken+"\n")
	g.set.Look()
	if got := ends(); !got.Equal(later.UTC()) || got.Equal(first) {
		t.Errorf("the certificate ends at %s, want %s", got, later)
	}
	for _, token := range []string{token, otherToken} {
		if code, body := asks(token); code != 200 {
			t.Errorf("%d %s", code, body)
		}
	}
	if text := problems(); text != "" || conn > 2 {
		t.Errorf("problems %q, %d connections", text, conn)
	}

	g.write("edge.key", "no key")
	g.write("token", "short\n")
	g.set.Look()
	if text := problems(); !strings.Contains(text, "the certificate of listener all is refused, the one before stays") || !strings.Contains(text, "the tokens of client scraper are refused") {
		t.Errorf("problems %q", text)
	}
	lines := strings.Count(g.log.String(), "\n")
	g.set.Look() // says no more
	if got := ends(); !got.Equal(later.UTC()) {
		t.Errorf("the certificate ends at %s, want %s", got, later)
	}
	if code, _ := asks(otherToken); code != 200 || strings.Count(g.log.String(), "\n") != lines {
		t.Errorf("%d, and the log\n%s", code, g.log.String())
	}

	g.ca.Server("edge", time.Now().Add(-time.Minute)) // ended already
	g.write("token", otherToken+"\n")
	g.set.Look()
	if text := problems(); !strings.Contains(text, "the certificate ended at") || strings.Contains(text, "tokens") {
		t.Errorf("problems %q", text)
	}
	if code, _ := asks(token); code != 401 {
		t.Errorf("the former token: %d", code)
	}
	g.ca.Server("edge", time.Now().Add(time.Hour))
	g.set.Look()
	if text := problems(); !strings.Contains(text, "the certificate of listener all ends at") {
		t.Errorf("problems %q", text)
	}
	if err := os.Chmod(g.path("token"), 0o644); err != nil {
		t.Fatal(err)
	}
	g.set.Look()
	if text := problems(); !strings.Contains(text, "other users may read the tokens of client scraper: chmod o-r") {
		t.Errorf("problems %q", text)
	}
}

// A client whose authority is no longer accepted is refused by a connection that it has.
func TestAuthorityRotation(t *testing.T) {
	g := newFixture(t)
	addr := free(t)
	clients := certificates.New(t, g.dir, "clients")
	config := g.config(addr)
	config.Listeners[0].TLS.ClientCA = clients.Path()
	g.listen(config)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: g.ca.Pool(), Certificates: []tls.Certificate{clients.Client("boss", "")}}}}
	for _, want := range []int{200, 401} {
		if code, body, err := ask(client, "https://"+addr.String()+"/v1/status", ""); err != nil || code != want {
			t.Errorf("%d %s, %v; want %d", code, body, err, want)
		}
		certificates.New(t, g.dir, "clients") // another one of that name
		g.set.Look()
	}
}

// A configuration that cannot be had changes nothing, and one that can is in force at once: addresses come, go and stay.
func TestReplacement(t *testing.T) {
	g := newFixture(t)
	a, b, taken := free(t), free(t), free(t)
	other, err := net.Listen("tcp4", taken.String())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	serves := func(addrs ...netip.AddrPort) *overlay.HTTP {
		config := &overlay.HTTP{}
		for _, addr := range addrs {
			config.Listeners = append(config.Listeners, overlay.HTTPListener{Name: "at-" + fmt.Sprint(addr.Port()), Addr: addr, Serve: []overlay.HTTPService{overlay.ServeHealth}})
		}
		return config
	}
	answers := func(addr netip.AddrPort) bool {
		_, _, err := ask(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, "http://"+addr.String()+"/healthz", "")
		return err == nil
	}
	g.listen(serves(a))
	for config, want := range map[*overlay.HTTP]string{
		serves(b, taken): taken.String() + " is in use: choose another port, or stop what listens there",
		serves(b, netip.MustParseAddrPort("192.0.2.77:9")):                      "192.0.2.77:9: this host has no such address: give it to an interface",
		{Clients: []overlay.HTTPClient{{Name: "c", TokenFile: g.path("none")}}}: "spec.http.clients, c: open ",
	} {
		if err := g.set.Prepare(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if !answers(a) || answers(b) {
			t.Error("what was in force is in force no more")
		}
	}
	// A stream by a connection that stays.
	conn, err := net.Dial("tcp", a.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	g.listen(serves(a, b))
	if !answers(a) || !answers(b) || !g.set.IsFor(serves(a, b)) {
		t.Error("the new addresses are not served")
	}
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(text), "HTTP/1.0 200 ") {
		t.Errorf("a connection from before: %q, %v", text, err)
	}
	g.listen(serves(b))
	if answers(a) || !answers(b) {
		t.Error("the former address is served")
	}
	g.listen(nil)
	if answers(b) || !g.set.IsFor(nil) {
		t.Error("addresses are served that are not configured")
	}
}

// What cannot be had at a start keeps nothing else from being served: it is tried again, and its metric says so.
func TestSomeListeners(t *testing.T) {
	g := newFixture(t)
	a, b, c := free(t), free(t), free(t)
	other, err := net.Listen("tcp4", b.String())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	config := g.config(a)
	config.Listeners = append(config.Listeners, config.Listeners[0], config.Listeners[0])
	config.Listeners[1].Name, config.Listeners[1].Addr, config.Listeners[1].TLS = "taken", b, nil
	config.Listeners[2].Name, config.Listeners[2].Addr = "unsigned", c
	config.Listeners[2].TLS = &overlay.ServerTLS{Certificate: g.path("late.pem"), Key: g.path("late.key")}
	if err := os.Rename(g.path("token"), g.path("token.away")); err != nil {
		t.Fatal(err)
	}
	try := func(wants ...string) {
		t.Helper()
		err := g.set.PrepareSome(config)
		g.set.Commit()
		g.set.Look()
		if len(wants) == 0 && err != nil || g.set.IsWhole() != (err == nil) || !g.set.IsFor(config) {
			t.Errorf("error %v, whole %t", err, g.set.IsWhole())
		}
		for _, want := range wants {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("error %v, want %s", err, want)
			}
		}
	}
	up := func(want map[string]int) {
		t.Helper()
		answer := httptest.NewRecorder()
		metrics.Handler(func() []*metrics.Page {
			p := new(metrics.Page)
			g.set.Metrics(p)
			return []*metrics.Page{p}
		}, nil).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		text := answer.Body.String()
		for name, is := range want {
			if line := fmt.Sprintf("selvage_http_listener_up{listener=%q} %d\n", name, is); !strings.Contains(text, line) {
				t.Errorf("no %s in\n%s", line, text)
			}
		}
	}
	try("taken: "+b.String()+" is in use", "; spec.http.listeners, unsigned: open "+g.path("late.pem"))
	up(map[string]int{"all": 1, "taken": 0, "unsigned": 0})
	if code, _ := g.asks(a, "/v1/status", token); code != http.StatusUnauthorized {
		t.Errorf("a client without a file of tokens: %d", code)
	}
	if p := fmt.Sprint(g.set.Problems(time.Now())); !strings.Contains(p, "client scraper has no tokens: open ") {
		t.Errorf("problems %s", p)
	}
	conn, err := tls.Dial("tcp", a.String(), &tls.Config{RootCAs: g.ca.Pool()})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	g.write("token", token+"\n")
	g.ca.Server("late", time.Now().Add(24*time.Hour))
	g.write("edge.pem", "no certificate")
	try("taken: " + b.String() + " is in use")
	up(map[string]int{"all": 1, "taken": 0, "unsigned": 1})
	for _, addr := range []netip.AddrPort{a, c} {
		if code, body := g.asks(addr, "/v1/status", token); code != http.StatusOK {
			t.Errorf("%s: %d %s", addr, code, body)
		}
	}
	g.ca.Server("edge", time.Now().Add(24*time.Hour))
	other.Close()
	try()
	up(map[string]int{"all": 1, "taken": 1, "unsigned": 1})
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(text), "HTTP/1.0 200 ") {
		t.Errorf("a connection from before: %q, %v", text, err)
	}
}

// Strangers hold few connections, and those that say nothing are closed.
func TestConnectionsAreFew(t *testing.T) {
	t.Parallel()
	g := newFixture(t)
	addr := free(t)
	g.listen(g.config(addr))
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for range mostOfOneAddress + 10 {
		c, err := net.Dial("tcp", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	l := g.set.inForce[addr]
	if err := await.Within(t.Context(), await.Patience, "connections are refused", func() error {
		if n := l.tally.refused.Load(); n != 10 || l.connections() != mostOfOneAddress {
			return fmt.Errorf("%d connections, %d refused", l.connections(), n)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	p := new(metrics.Page)
	g.set.Metrics(p)
	if p.Len() == 0 {
		t.Error("no metrics")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*headerTimeout)
	defer cancel()
	if err := await.Within(ctx, 3*headerTimeout, "silent connections are closed", func() error {
		if n := l.connections(); n > 0 {
			return fmt.Errorf("%d connections", n)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
