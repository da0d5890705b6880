package measure

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// What a far end cannot have measured is an error of the slice that names it, and not a figure.
func TestHostileReports(t *testing.T) {
	role := Role{Duration: time.Second}
	const latency = `"latency":{"LowestTrackableValue":1,"HighestTrackableValue":1000000,"SignificantFigures":3,"Counts":[0,5]}`
	readers := map[string]func(client, server string) error{
		"rr":   func(client, _ string) error { _, err := ReadRR(role, json.RawMessage(client)); return err },
		"crr":  func(client, _ string) error { _, err := ReadCRR(role, json.RawMessage(client)); return err },
		"udp":  func(c, s string) error { _, err := ReadUDP(role, json.RawMessage(c), json.RawMessage(s)); return err },
		"bulk": func(c, s string) error { _, err := ReadBulk(role, json.RawMessage(c), json.RawMessage(s)); return err },
	}
	for _, c := range []struct{ reader, client, server, want string }{
		{"rr", `{"transactions":5,"elapsed_ns":1000,` + latency + `}`, ``, ""},
		{"rr", `{"transactions":5,"elapsed_ns":0,` + latency + `}`, ``, "request/response: it took 0s"},
		{"rr", `{"transactions":-5,"elapsed_ns":1000,` + latency + `}`, ``, "it counted -5"},
		{"rr", `{"transactions":5,"elapsed_ns":1000}`, ``, "no latencies"},
		{"rr", `{"transactions":5,"elapsed_ns":1000,"latency":{"LowestTrackableValue":4611686018427387904,"SignificantFigures":9}}`, ``, "no latencies"},
		{"crr", `{"transactions":5,"failed":-1,"elapsed_ns":1000,` + latency + `}`, ``, "connections: it counted -1"},
		{"crr", `{"transactions":5,"elapsed_ns":-1,` + latency + `}`, ``, "it took -1ns"},
		{"udp", `{"packets":5,"elapsed_ns":1000}`, `{"packets":5}`, ""},
		{"udp", `{"packets":5,"elapsed_ns":0}`, `{"packets":5}`, "UDP sender: it took 0s"},
		{"bulk", `{"bytes":[1]}`, `{"bytes":[1]}`, ""},
		{"bulk", `{"bytes":[1]}`, `{"bytes":[]}`, "no interval"},
		{"bulk", `{"bytes":[1]}`, `{"bytes":[1,-2]}`, "bulk transfer: it counted -2"},
	} {
		if err := readers[c.reader](c.client, c.server); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %s %s: %v, want %q", c.reader, c.client, c.server, err, c.want)
		}
	}
}

// A port that another has is named with the flag that chooses another one.
func TestPortTaken(t *testing.T) {
	addr := netip.MustParseAddr("127.0.0.1")
	listener, err := listenTCP(addr, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := int(netip.MustParseAddrPort(listener.Addr().String()).Port())
	for name, again := range map[string]func() error{
		"listenTCP": func() error { _, err := listenTCP(addr, port); return err },
		"listen":    func() error { _, err := listen(addr, port, 1); return err },
	} {
		if err := again(); err == nil || !strings.Contains(err.Error(), "choose another with --port") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
