package config

import (
	"os"
	"testing"
)

func TestHTTPErrors(t *testing.T) {
	const head = header + "spec:\n  underlay: {interfaces: [eth0], tep: 192.0.2.1}\n  http:\n"
	testErrors(t, []errorCase{
		{"address", head + "    metrics: 192.0.2.1\n", []string{
			`7:14: spec.http.metrics: "192.0.2.1" is not an address with a port; write it like 192.0.2.1:9469 or [2001:db8::1]:9469`}},
		{"port 0", head + "    metrics: \"[::]:0\"\n", []string{
			`7:14: spec.http.metrics: [::]:0 has port 0, which is not valid; write it like 192.0.2.1:9469 or [2001:db8::1]:9469`}},
		{"no authority", head + "    api: {address: 192.0.2.1:1, certificateFile: c, keyFile: k}\n", []string{
			`7:10: spec.http.api.clientCAFile: is missing; add it: file with the authorities whose client certificates are accepted, in PEM form`}},
		{"one address", head + "    metrics: 192.0.2.1:1\n    api: {address: 192.0.2.1:1, certificateFile: c, keyFile: k, clientCAFile: a}\n", []string{
			`8:20: spec.http.api.address: 192.0.2.1:1 is the address for metrics already; give each an address or port of its own`}},
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
    metrics: 192.0.2.1:9469
    api: {address: 127.0.0.1:1, certificateFile: /etc/edge.pem, keyFile: edge.key, clientCAFile: clients.pem}
`
	if err := os.WriteFile(dir+"/a.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := Load(dir + "/a.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if a := e.HTTP.API; a.Certificate != "/etc/edge.pem" || a.Key != credentials+"/edge.key" || a.ClientCA != dir+"/clients.pem" || e.HTTP.Metrics.Port() != 9469 {
		t.Errorf("%+v, %+v", e.HTTP, a)
	}
}
