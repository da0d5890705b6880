package config

import "fmt"

// checkHTTP checks that listeners have an address each.
func checkHTTP(file *fileErrors, h *httpServer) {
	if h == nil || h.Metrics == nil || h.API == nil || !h.Metrics.IsValid() {
		return
	}
	if h.Metrics.AddrPort == h.API.Address.AddrPort {
		file.problem("spec.http.api.address", fmt.Sprintf("%s is the address for metrics already", h.API.Address), "give each an address or port of its own")
	}
}
