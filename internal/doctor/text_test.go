package doctor

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The server with one fault of each severity, as people read it.
func TestText(t *testing.T) {
	inv := recorded(t, "server")
	inv.on("eth0").MTU = 1500
	for i := range inv.Tunnels[0].Paths {
		inv.Tunnels[0].Paths[i].MTU = 1500
	}
	*inv.on("eth0").NIC.Ring = Ring{Rx: 256, RxMax: 4096, Tx: 4096, TxMax: 4096}
	feature("eth0", "rx-udp_tunnel-port-offload", Feature{Fixed: true})(inv)
	inv.unknown("interrupt coalescing of eth0", "the driver mlx5_core does not report it")
	var got bytes.Buffer
	if err := Text(&got, Diagnose(*inv)); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "report.txt")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("%v (run go test -update)", err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("differs from %s (go test -update rewrites it):\n%s", golden, diff)
	}
}
