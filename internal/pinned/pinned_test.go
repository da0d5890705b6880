package pinned

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
)

// What tables say is read from real ones in test/e2e/ops TestDeadEdgeIsRead.
func TestOpenWithoutPins(t *testing.T) {
	root := t.TempDir()
	if _, err := Open(Options{Name: "a", PinRoot: root, StateDir: root}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want that nothing is pinned", err)
	}
	if err := os.MkdirAll(filepath.Join(root, "a", "maps-9999"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Options{Name: "a", PinRoot: root, StateDir: root})
	var abi datapath.ABIError
	if !errors.As(err, &abi) || !strings.HasPrefix(err.Error(), "edge a cannot be read from its pins: ") {
		t.Errorf("%v, want an error of the ABI", err)
	}
	if list, err := os.ReadDir(root); err != nil || len(list) != 1 {
		t.Errorf("%v (%v), want that nothing is made", list, err)
	}
}

// The server ends with all connections, and answers nobody after that.
func TestServer(t *testing.T) {
	s := serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode([]api.DropInfo{{Reason: "x"}})
	}))
	client := api.DialBy("a", s.dial)
	for range 2 {
		drops, err := client.Drops(t.Context())
		if err != nil || len(drops) != 1 || drops[0].Reason != "x" {
			t.Fatalf("%+v, %v", drops, err)
		}
	}
	idle, err := s.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
	if _, err := idle.Read(make([]byte, 1)); err == nil {
		t.Error("a connection is open")
	}
	if _, err := client.Drops(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after its end: %v", err)
	}
}

func TestBestRoute(t *testing.T) {
	route := func(router, prefix string) datapath.PinnedRoute {
		return datapath.PinnedRoute{Router: router, Prefix: netip.MustParsePrefix(prefix)}
	}
	routes := []datapath.PinnedRoute{route("a", "0.0.0.0/0"), route("a", "10.0.0.0/8"), route("b", "0.0.0.0/0"), route("b", "::/0")}
	var best []string
	for _, r := range routes {
		if isBest(routes, r, netip.MustParseAddr("10.1.2.3")) {
			best = append(best, r.Router+" "+r.Prefix.String())
		}
	}
	if strings.Join(best, ", ") != "a 10.0.0.0/8, b 0.0.0.0/0" {
		t.Errorf("%q", best)
	}
}

func TestHopStates(t *testing.T) {
	host, mac, remote := netip.MustParseAddr("10.0.0.1"), overlay.MAC{2}, netip.MustParseAddr("192.0.2.2")
	s := hopStates{map[segmentAddr]overlay.MAC{{"blue", host}: mac}, map[netip.Addr]string{remote: "resolved"}}
	for want, hop := range map[string]fib.Hop{
		"connected ": {Segment: "blue"}, "resolved 02:00:00:00:00:00": {Segment: "blue", Addr: host}, "unresolved ": {Segment: "green", Addr: host},
		"resolved 02:00:00:00:00:01": {Segment: "l3", Remote: remote, MAC: overlay.MAC{2, 5: 1}},
	} {
		if got := s.hop(hop); got.State+" "+got.MAC != want {
			t.Errorf("%+v: %+v, want %s", hop, got, want)
		}
	}
}
