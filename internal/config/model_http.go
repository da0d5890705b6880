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
	if h.Metrics != nil {
		m.Metrics = h.Metrics.AddrPort
	}
	if a := h.API; a != nil {
		m.API = &overlay.HTTPAPI{Addr: a.Address.AddrPort, Certificate: f.found(a.Certificate), Key: f.found(a.Key), ClientCA: f.found(a.ClientCA)}
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
