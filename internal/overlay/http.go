package overlay

import "net/netip"

// HTTP is what an edge serves besides its unix socket.
type HTTP struct {
	// Metrics is where metrics and health are served in the clear; invalid: nowhere.
	Metrics netip.AddrPort
	// API is nil where only the unix socket serves it.
	API *HTTPAPI
}

// HTTPAPI serves the API by mutual TLS. Files are given by their paths, and are read again when they change.
type HTTPAPI struct {
	Addr             netip.AddrPort
	Certificate, Key string
	ClientCA         string // certificates that sign those of clients
}
