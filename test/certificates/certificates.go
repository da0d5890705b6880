// Package certificates makes authorities and certificates for tests, in files.
//
// Its one invariant: all that it makes is in the directory that it is given, and is of no use outside of tests.
package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	t    testing.TB
	dir  string
	name string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New makes an authority whose files are in dir.
func New(t testing.TB, dir, name string) *Authority {
	t.Helper()
	a := &Authority{t: t, dir: dir, name: name}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * 365 * time.Hour),
	}
	a.cert, a.key = a.sign(template, template, nil)
	a.write(name+".pem", "CERTIFICATE", a.cert.Raw)
	return a
}

// Path is the file of the authority's certificate.
func (a *Authority) Path() string { return filepath.Join(a.dir, a.name+".pem") }

// Pool has the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Server writes NAME.pem and NAME.key of one at 127.0.0.1, localhost and more addresses, which is good until it ends.
func (a *Authority) Server(name string, ends time.Time, more ...net.IP) {
	a.t.Helper()
	a.pair(name, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IPAddresses: append([]net.IP{net.IPv4(127, 0, 0, 1)}, more...), DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: ends, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// Client writes NAME.pem and NAME.key of a client with that common name, and a URI if it is given one.
func (a *Authority) Client(name, uri string) tls.Certificate {
	a.t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if uri != "" {
		parsed, err := url.Parse(uri)
		if err != nil {
			a.t.Fatal(err)
		}
		template.URIs = []*url.URL{parsed}
	}
	a.pair(name, template)
	pair, err := tls.LoadX509KeyPair(filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key"))
	if err != nil {
		a.t.Fatal(err)
	}
	return pair
}

func (a *Authority) pair(name string, template *x509.Certificate) {
	a.t.Helper()
	cert, key := a.sign(template, a.cert, a.key)
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".pem", "CERTIFICATE", cert.Raw)
	a.write(name+".key", "PRIVATE KEY", text)
}

func (a *Authority) sign(template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	text, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(text)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

func (a *Authority) write(name, kind string, text []byte) {
	a.t.Helper()
	if err := os.WriteFile(filepath.Join(a.dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: text}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}
