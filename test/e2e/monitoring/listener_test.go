package monitoring

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// listener is one of an edge that Prometheus scrapes over TLS, with a token.
type listener struct {
	address                         string // in the host of the edge
	ca, certificate, key, tokenFile string
}

const (
	listenerName = "edge1.example"
	token        = "a token of five words"
)

// newListener is one of edge1. Its certificate ends in half a day.
func newListener(n *harness.EgressNet) *listener {
	n.T.Helper()
	dir := n.T.TempDir()
	l := &listener{
		address: net.JoinHostPort(n.Teps[0].String(), "9470"), ca: filepath.Join(dir, "ca.pem"),
		certificate: filepath.Join(dir, "edge.pem"), key: filepath.Join(dir, "edge.key"), tokenFile: filepath.Join(dir, "token"),
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	n.Must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: listenerName}, DNSNames: []string{listenerName}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(12 * time.Hour),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	n.Must(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	n.Must(err)
	for _, file := range []string{l.certificate, l.ca} {
		n.Must(os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), 0o600))
	}
	n.Must(os.WriteFile(l.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	n.Must(os.WriteFile(l.tokenFile, []byte(token+"\n"), 0o600))
	return l
}

// from dials it on a host.
func (l *listener) from(h *topo.Host) func() (net.Conn, error) {
	return func() (conn net.Conn, err error) {
		err = h.Do(func() error {
			conn, err = net.Dial("tcp", l.address)
			return err
		})
		return conn, err
	}
}

// spec is what configures it, and another at an address that the host has not.
func (l *listener) spec() string {
	return fmt.Sprintf(`  http:
    listeners:
    - {name: metrics, address: %q, serve: [metrics, health], tls: {certificateFile: %q, keyFile: %q}}
    - {name: elsewhere, address: "192.0.2.250:9471", serve: [health]}
    clients:
    - {name: prometheus, role: read, tokenFile: %q}
`, l.address, l.certificate, l.key, l.tokenFile)
}

// scrape is how Prometheus is told of it.
func (l *listener) scrape() string {
	return fmt.Sprintf("  scheme: https\n  tls_config: {ca_file: %q, server_name: %s}\n  authorization: {credentials_file: %q}\n", l.ca, listenerName, l.tokenFile)
}

// strangers, on the host of edge2, do not know the token, until nobody listens to them any more, and keep connections; then
// somebody spoils the certificate.
func (l *listener) strangers(n *harness.EgressNet) []string {
	n.T.Helper()
	dial := l.from(n.Hosts[1])
	client := http.Client{Transport: &http.Transport{
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
			conn, err := dial()
			if err != nil {
				return nil, err
			}
			return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}), nil //nolint:gosec // a stranger does not care
		},
	}}
	defer client.CloseIdleConnections()
	for {
		request, err := http.NewRequestWithContext(n.Ctx, http.MethodGet, "https://"+listenerName+"/metrics", nil)
		n.Must(err)
		request.Header.Set("Authorization", "Bearer guessed")
		answer, err := client.Do(request)
		n.Must(err)
		answer.Body.Close()
		if answer.StatusCode == http.StatusTooManyRequests {
			break
		}
		if answer.StatusCode != http.StatusUnauthorized {
			n.Fail("who guesses is refused", fmt.Errorf("%s", answer.Status))
		}
	}
	for range 80 {
		conn, err := dial()
		n.Must(err)
		n.T.Cleanup(func() { conn.Close() })
	}
	n.Must(os.WriteFile(l.certificate+".new", []byte("no certificate\n"), 0o600))
	n.Must(os.Rename(l.certificate+".new", l.certificate))
	return []string{
		"SelvageAuthenticationFails edge1", "SelvageConnectionsRefused edge1", "SelvageCertificateRefused edge1",
		"SelvageCertificateEnds edge1", "SelvageCertificateEndsNow edge1",
	}
}
