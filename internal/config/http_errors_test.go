package config

import (
	"os"
	"testing"
)

func TestHTTPErrors(t *testing.T) {
	const head = header + "spec:\n  underlay: {interfaces: [eth0], tep: 192.0.2.1}\n  http:\n    listeners:\n"
	const clients = "    clients:\n    - {name: prometheus, role: read, tokenFile: t}\n"
	testErrors(t, []errorCase{
		{"no listener", header + "spec:\n  underlay: {interfaces: [eth0], tep: 192.0.2.1}\n  http: {listeners: []}\n", []string{
			`6:21: spec.http.listeners: the list is empty; give addresses of this host at which it answers, besides the unix socket; at most 16`}},
		{"address", head + "    - {name: m, address: 192.0.2.1, serve: [health]}\n", []string{
			`8:26: spec.http.listeners[0].address: "192.0.2.1" is not an address with a port; write it like 192.0.2.1:9469 or [2001:db8::1]:9469`}},
		{"port 0", head + "    - {name: m, address: \"[::]:0\", serve: [health]}\n", []string{
			`8:26: spec.http.listeners[0].address: [::]:0 has port 0, which is not valid; write it like 192.0.2.1:9469 or [2001:db8::1]:9469`}},
		{"service", head + "    - {name: m, address: 192.0.2.1:1, serve: [metric]}\n", []string{
			`8:47: spec.http.listeners[0].serve[0]: "metric" is not a known service; did you mean "metrics"?`}},
		{"API in the clear", head + "    - {name: m, address: 192.0.2.1:1, serve: [api]}\n" + clients, []string{
			`8:46: spec.http.listeners[0].serve: the API would be in the clear at 192.0.2.1:1; add tls, or listen at 127.0.0.1`}},
		{"API for all", head + "    - {name: m, address: 127.0.0.1:1, serve: [api], authentication: false}\n" + clients, []string{
			`8:69: spec.http.listeners[0].authentication: everybody who reaches the address could change this edge; remove the line, and list spec.http.clients`}},
		{"tokens in the clear", head + "    - {name: m, address: \"[::]:1\", serve: [metrics]}\n" + clients, []string{
			`8:26: spec.http.listeners[0].address: tokens would be in the clear at [::]:1; add tls, or authentication: false where everybody may read the metrics`}},
		{"nobody", head + "    - {name: m, address: 127.0.0.1:1, serve: [metrics]}\n    clients:\n    - {name: c, role: read, certificate: {commonName: c}}\n", []string{
			`8:46: spec.http.listeners[0].serve: nobody may ask at this listener; add one of spec.http.clients with a tokenFile, or with a certificate and tls.clientCAFile here; or authentication: false for metrics`}},
		{"names and addresses twice", head + "    - {name: m, address: 127.0.0.1:1, serve: [health]}\n    - {name: m, address: 127.0.0.1:1, serve: [health]}\n" +
			"    clients:\n    - {name: c, role: read, tokenFile: a}\n    - {name: c, role: admin, tokenFile: b}\n", []string{
			`9:14: spec.http.listeners[1].name: listener "m" already exists (spec.http.listeners[0].name, line 8); names are unique`,
			`9:26: spec.http.listeners[1].address: 127.0.0.1:1 is already listened at (spec.http.listeners[0].address, line 8); give each listener an address or port of its own`,
			`12:14: spec.http.clients[1].name: client "c" already exists (spec.http.clients[0].name, line 11); names are unique`}},
		{"role", head + "    - {name: m, address: 127.0.0.1:1, serve: [health]}\n    clients:\n    - {name: c, role: root, tokenFile: a}\n", []string{
			`10:23: spec.http.clients[0].role: "root" is not supported; write read or operate or admin`}},
		{"every certificate", head + "    - {name: m, address: 127.0.0.1:1, serve: [health]}\n    clients:\n    - {name: c, role: read, certificate: {}}\n", []string{
			`10:42: spec.http.clients[0].certificate: every certificate would be that of this client; give commonName, dnsName or uri`}},
	})
}

// Files are found beside the configuration, or among the credentials of the service.
func TestHTTPFiles(t *testing.T) {
	dir, credentials := t.TempDir(), t.TempDir()
	t.Setenv(credentialsVariable, credentials)
	if err := os.WriteFile(credentials+"/edge.key", []byte("key"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := header + `spec:
  underlay: {interfaces: [eth0], tep: 192.0.2.1}
  http:
    listeners: [{name: m, address: 127.0.0.1:1, serve: [metrics], tls: {certificateFile: /etc/edge.pem, keyFile: edge.key}}]
    clients: [{name: c, role: read, tokenFile: token}]
`
	if err := os.WriteFile(dir+"/a.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := Load(dir + "/a.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if l, c := e.HTTP.Listeners[0], e.HTTP.Clients[0]; l.TLS.Certificate != "/etc/edge.pem" || l.TLS.Key != credentials+"/edge.key" || l.TLS.ClientCA != "" || c.TokenFile != dir+"/token" || !l.Authenticated {
		t.Errorf("listener %+v %+v, client %+v", l, l.TLS, c)
	}
}
