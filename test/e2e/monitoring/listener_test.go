package monitoring

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/certificates"
	"github.com/selvage/selvage/test/e2e/harness"
)

// listener is the API of edge1, which Prometheus scrapes by mutual TLS.
type listener struct {
	address string // in the host of the edge
	dir     string // of certificates
}

// newListener is one whose certificate ends in half a day.
func newListener(n *harness.EgressNet) *listener {
	n.T.Helper()
	l := &listener{address: net.JoinHostPort(n.Teps[0].String(), "9470"), dir: n.T.TempDir()}
	ca := certificates.New(n.T, l.dir, "ca")
	ca.Server("edge", time.Now().Add(12*time.Hour))
	ca.Client("prometheus", "")
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

// spec configures it, and metrics at an address that the host does not have.
func (l *listener) spec() string {
	return fmt.Sprintf(`  http:
    metrics: 192.0.2.250:9471
    api: {address: %q, certificateFile: %[2]s/edge.pem, keyFile: %[2]s/edge.key, clientCAFile: %[2]s/ca.pem}
`, l.address, l.dir)
}

// scrape is how Prometheus is told of it.
func (l *listener) scrape() string {
	return fmt.Sprintf("  scheme: https\n  tls_config: {server_name: localhost, ca_file: %[1]s/ca.pem, cert_file: %[1]s/prometheus.pem, key_file: %[1]s/prometheus.key}\n", l.dir)
}

// strangers, on the host of edge2, open too many connections; then the certificate is spoiled.
func (l *listener) strangers(n *harness.EgressNet) []string {
	n.T.Helper()
	dial := l.from(n.Hosts[1])
	for range 80 {
		conn, err := dial()
		n.Must(err)
		n.T.Cleanup(func() { conn.Close() })
	}
	certificate := filepath.Join(l.dir, "edge.pem")
	n.Must(os.WriteFile(certificate+".new", []byte("no certificate\n"), 0o600))
	n.Must(os.Rename(certificate+".new", certificate))
	return []string{"SelvageConnectionsRefused edge1", "SelvageCertificateRefused edge1", "SelvageCertificateEnds edge1", "SelvageCertificateEndsNow edge1"}
}
