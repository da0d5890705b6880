package cilium

import (
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/test/ciliumtest"
)

func TestHostRouting(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		text   string
		want   Mode
		err    string
	}{
		"BPF":           {http.StatusOK, `{"cilium": {"state": "Ok"}, "routing": {"inter-host-routing-mode": "Tunnel", "intra-host-routing-mode": "BPF", "tunnel-protocol": "vxlan"}}`, BPF, ""},
		"legacy":        {http.StatusOK, `{"routing": {"inter-host-routing-mode": "Native", "intra-host-routing-mode": "Legacy"}}`, Legacy, ""},
		"before 1.16":   {http.StatusOK, `{"host-routing": {"mode": "BPF"}, "masquerading": {"mode": "BPF"}}`, BPF, ""},
		"said nothing":  {http.StatusOK, `{"cilium": {"state": "Ok"}}`, "", "does not say how it routes"},
		"another word":  {http.StatusOK, `{"routing": {"intra-host-routing-mode": "Netkit"}}`, "", `"Netkit", which is neither BPF nor Legacy`},
		"no JSON":       {http.StatusOK, `starting`, "", "invalid character"},
		"still starts":  {http.StatusServiceUnavailable, ``, "", "503 Service Unavailable"},
		"another field": {http.StatusOK, `{"routing": []}`, "", "cannot unmarshal array"},
	} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "cilium.sock")
			ciliumtest.Serve(t, socket, func() (int, string) { return c.status, c.text })
			got, err := HostRouting(t.Context(), socket)
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("%q, %v; want %q, %q", got, err, c.want, c.err)
			}
		})
	}
}

func TestNobody(t *testing.T) {
	dir := t.TempDir()
	if mode, err := HostRouting(t.Context(), filepath.Join(dir, "cilium.sock")); mode != "" || err != nil {
		t.Fatalf("without a socket: %q, %v", mode, err)
	}
	socket := filepath.Join(dir, "left.sock") // of an agent that was killed
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if mode, err := HostRouting(t.Context(), socket); mode != "" || err == nil || errors.Is(err, errUntold) {
		t.Fatalf("nobody answers: %q, %v", mode, err)
	}
}
