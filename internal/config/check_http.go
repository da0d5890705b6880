package config

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// Bounds of spec.http.
const maxHTTPListeners, maxHTTPClients = 16, 64

// httpChecker checks who is served what, and where.
type httpChecker struct {
	file *fileErrors
	doc  *document
}

func (c httpChecker) check() {
	h := c.doc.Spec.HTTP
	if h == nil {
		return
	}
	if n := len(h.Listeners); n > maxHTTPListeners {
		c.file.problem("spec.http.listeners", fmt.Sprintf("%d listeners, at most %d", n, maxHTTPListeners), "one may serve several things")
	}
	if n := len(h.Clients); n > maxHTTPClients {
		c.file.problem("spec.http.clients", fmt.Sprintf("%d clients, at most %d", n, maxHTTPClients), "give clients of one kind the same token or name")
	}
	names, addresses, clients := unique[objectName]{}, unique[netip.AddrPort]{}, unique[objectName]{}
	for i, l := range h.Listeners {
		path := fmt.Sprintf("spec.http.listeners[%d]", i)
		names.add(c.file, l.Name, "", path+".name", fmt.Sprintf("listener %q already exists", l.Name), "names are unique")
		addresses.add(c.file, l.Address.AddrPort, netip.AddrPort{}, path+".address", fmt.Sprintf("%s is already listened at", l.Address), "give each listener an address or port of its own")
		c.listener(path, l)
	}
	for i, client := range h.Clients {
		path := fmt.Sprintf("spec.http.clients[%d]", i)
		clients.add(c.file, client.Name, "", path+".name", fmt.Sprintf("client %q already exists", client.Name), "names are unique")
		c.client(path, client)
	}
}

// listener checks that nobody reads what must be read by few, and that nobody changes an edge unasked.
func (c httpChecker) listener(path string, l httpListener) {
	if !l.Address.IsValid() || c.file.failedIn(path, "serve", "authentication", "tls") {
		return
	}
	isAPI, inTheClear := l.serves(overlay.ServeAPI), l.TLS == nil && !l.Address.Addr().IsLoopback()
	asks := l.Authenticated && (isAPI || l.serves(overlay.ServeMetrics))
	switch {
	case isAPI && !l.Authenticated:
		c.file.problem(path+".authentication", "everybody who reaches the address could change this edge", "remove the line, and list spec.http.clients")
	case isAPI && inTheClear:
		c.file.problem(path+".serve", fmt.Sprintf("the API would be in the clear at %s", l.Address), "add tls, or listen at 127.0.0.1")
	case asks && inTheClear:
		c.file.problem(path+".address", fmt.Sprintf("tokens would be in the clear at %s", l.Address), "add tls, or authentication: false where everybody may read the metrics")
	case asks && !c.anybody(l):
		c.file.problem(path+".serve", "nobody may ask at this listener", "add one of spec.http.clients with a tokenFile, or with a certificate and tls.clientCAFile here; or authentication: false for metrics")
	}
}

func (l httpListener) serves(s overlay.HTTPService) bool {
	return slices.Contains(l.Serve, httpService(s))
}

// anybody reports whether a client can say who it is at a listener.
func (c httpChecker) anybody(l httpListener) bool {
	return slices.ContainsFunc(c.doc.Spec.HTTP.Clients, func(client httpClient) bool {
		return client.TokenFile != "" || client.Certificate != nil && l.TLS != nil && l.TLS.ClientCA != ""
	}) || c.file.failed["spec.http.clients"]
}

func (c httpChecker) client(path string, client httpClient) {
	if cert := client.Certificate; cert != nil && *cert == (clientCertificate{}) && !c.file.failedIn(path+".certificate", "commonName", "dnsName", "uri") {
		c.file.problem(path+".certificate", "every certificate would be that of this client", "give commonName, dnsName or uri")
	}
}
