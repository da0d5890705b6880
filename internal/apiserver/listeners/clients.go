package listeners

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/overlay"
)

// client is somebody who may ask.
type client struct {
	overlay.HTTPClient
	tokens *tokens // nil: by certificate
	failed error   // of the last reading of its file, as the tokens stay
}

// clients are all of a configuration. They are replaced, never changed.
type clients []client

// byToken is the client of a token. It compares with all, so that the time tells nothing.
func (c clients) byToken(token string) (found *client) {
	given := sha256.Sum256([]byte(token))
	for i := range c {
		if c[i].tokens == nil {
			continue
		}
		for _, sum := range c[i].tokens.sums {
			if subtle.ConstantTimeCompare(given[:], sum[:]) == 1 {
				found = &c[i]
			}
		}
	}
	return found
}

// byCertificate is the first client whose names a certificate has that roots vouch for now.
func (c clients) byCertificate(chain []*x509.Certificate, roots *x509.CertPool, now time.Time) *client {
	if len(chain) == 0 || roots == nil {
		return nil
	}
	o := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, intermediate := range chain[1:] {
		o.Intermediates.AddCert(intermediate)
	}
	if _, err := chain[0].Verify(o); err != nil {
		return nil
	}
	for i := range c {
		if names := c[i].Certificate; names != nil && isOf(chain[0], *names) {
			return &c[i]
		}
	}
	return nil
}

// isOf reports whether a certificate has all names that are given.
func isOf(cert *x509.Certificate, names overlay.ClientCertificate) bool {
	if names == (overlay.ClientCertificate{}) {
		return false
	}
	if names.CommonName != "" && cert.Subject.CommonName != names.CommonName {
		return false
	}
	if names.DNSName != "" && !slices.ContainsFunc(cert.DNSNames, func(n string) bool { return strings.EqualFold(n, names.DNSName) }) {
		return false
	}
	if names.URI == "" {
		return true
	}
	for _, uri := range cert.URIs {
		if uri.String() == names.URI {
			return true
		}
	}
	return false
}

// bearer is the token of a header (RFC 6750 section 2.1).
func bearer(header string) (token string, ok bool) {
	scheme, token, ok := strings.Cut(header, " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "Bearer")
}
