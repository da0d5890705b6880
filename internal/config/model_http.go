package config

import (
	"os"
	"path/filepath"

	"github.com/selvage/selvage/internal/overlay"
)

func (d *document) http(f *files) *overlay.HTTP {
	h := d.Spec.HTTP
	if h == nil {
		return nil
	}
	m := &overlay.HTTP{}
	for _, l := range h.Listeners {
		listener := overlay.HTTPListener{
			Name: string(l.Name), Addr: l.Address.AddrPort, Authenticated: l.Authenticated,
			Serve: each(l.Serve, func(s httpService) overlay.HTTPService { return overlay.HTTPService(s) }),
		}
		if t := l.TLS; t != nil {
			listener.TLS = &overlay.ServerTLS{Certificate: f.found(t.Certificate), Key: f.found(t.Key), ClientCA: f.found(t.ClientCA)}
		}
		m.Listeners = append(m.Listeners, listener)
	}
	for _, c := range h.Clients {
		client := overlay.HTTPClient{Name: string(c.Name), Role: overlay.Role(c.Role), TokenFile: f.found(c.TokenFile)}
		if c.Certificate != nil {
			client.Certificate = &overlay.ClientCertificate{CommonName: c.Certificate.CommonName, DNSName: c.Certificate.DNSName, URI: c.Certificate.URI}
		}
		m.Clients = append(m.Clients, client)
	}
	return m
}

// found is where a file is that is read later: among the credentials of the service, or else beside the configuration.
func (f *files) found(path filePath) string {
	name := string(path)
	if f == nil || name == "" {
		return name
	}
	if f.credentials != "" && !filepath.IsAbs(name) {
		given := filepath.Join(f.credentials, name)
		if _, err := os.Stat(given); err == nil {
			return given
		}
	}
	return f.path(name)
}
