package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
)

// dialTimeout bounds how long a remote edge may take to take a connection.
const dialTimeout = 10 * time.Second

// Remote is an edge elsewhere, that listens as its spec.http says.
type Remote struct {
	Address string // as in https://192.0.2.1:9470
	// CAFile has the authorities that sign the edge's certificate; "": those of the system.
	CAFile string
	// CertFile and KeyFile are the certificate of the client; "": none.
	CertFile, KeyFile string
}

// DialRemote returns a client of an edge elsewhere. It does not connect yet. The files are read once.
func DialRemote(r Remote) (*Client, error) {
	base, err := baseOf(r.Address)
	switch {
	case err != nil:
		return nil, err
	case (r.CertFile == "") != (r.KeyFile == ""):
		return nil, errors.New("a client certificate takes both: its file and that of its key")
	}
	config, err := r.tls()
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: dialTimeout}
	return &Client{name: base.Host, remote: true, base: base.Scheme + "://" + base.Host, silence: clientTimeout, http: &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: config, TLSHandshakeTimeout: dialTimeout, Proxy: http.ProxyFromEnvironment,
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				return d.DialContext(ctx, network, addr)
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// baseOf reads where an edge is.
func baseOf(address string) (*url.URL, error) {
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" || base.User != nil || strings.Trim(base.Path, "/") != "" || base.RawQuery != "" {
		return nil, fmt.Errorf("address %q: write it like https://192.0.2.1:9470", address)
	}
	return base, nil
}

func (r Remote) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.CAFile != "" {
		text, err := os.ReadFile(r.CAFile)
		if err != nil {
			return nil, fmt.Errorf("authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("authorities: %s has no certificate in PEM form", r.CAFile)
		}
	}
	if r.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(r.CertFile, r.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// explainRemote says what a failing connection to an edge elsewhere means and what to do.
func explainRemote(c *Client, err error) error {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("edge %s: nothing listens there: see spec.http.api of the edge: %w", c.name, err)
	case errors.As(err, &unknown):
		return fmt.Errorf("edge %s: its certificate is of an authority that is not trusted: give that one's with --ca: %w", c.name, err)
	case errors.As(err, &name):
		return fmt.Errorf("edge %s: its certificate is for other names: ask it by one of those: %w", c.name, err)
	case strings.Contains(err.Error(), "HTTP response to HTTPS client"):
		return fmt.Errorf("edge %s: it serves metrics there, in the clear: give the address of spec.http.api: %w", c.name, err)
	case strings.Contains(err.Error(), "certificate required"):
		return fmt.Errorf("edge %s: it requires a client certificate: give --cert and --key: %w", c.name, err)
	}
	return fmt.Errorf("edge %s: %w", c.name, err)
}
