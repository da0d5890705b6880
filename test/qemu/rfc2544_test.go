package qemu

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/transit"
	"github.com/selvage/selvage/test/debian"
)

// runMost is the time that a run may take.
const runMost = 2 * time.Minute

// rfc2544 runs lab rfc2544 through the router of a driver.
func rfc2544(t *testing.T, m *debian.Machine, d int, flags string) (debian.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runMost)
	defer cancel()
	return m.Run(ctx, fmt.Sprintf("cd /root && exec selvage-lab rfc2544 --tx ns:tester%d:tx%[1]d --rx ns:tester%[1]d:rx%[1]d --dut 'kernel router' "+
		"--tx-address 192.0.2.200/24 --rx-address 198.51.100.200/24 --gateway 192.0.2.1,198.51.100.1 --quick --sizes 64 --flows 16 "+
		"--duration 1s --initial-duration 1s --rounds 1 --catch-up 50ms --output json %s", d, flags))
}

// router: a kernel router between real interfaces has its no-drop rate where the driver has XDP, and where it has none the
// error says so.
func router(t *testing.T, m *debian.Machine, d int) {
	up(m, d)
	driver := drivers[d]
	if driver.name == "e1000e" {
		for flags, want := range map[string]string{
			"":              "attach native XDP to rx1 (another program may be there, or the driver has none)",
			"--xdp generic": "the driver (e1000e) sends no frames of XDP without native XDP; use another card at the side of --tx",
		} {
			if r, err := rfc2544(t, m, d, flags); err == nil || r.Status != 1 || !strings.Contains(r.Err, want) {
				t.Errorf("%s: exit status %d, want 1 and %q in\n%s", flags, r.Status, want, r.Err)
			}
		}
		return
	}
	// What an emulated processor loses is no matter here: the rates are far below its ceiling.
	const low = "--search binary --tolerance 5 --min-rate 0.5 --max-rate 20"
	said, err := rfc2544(t, m, d, low)
	if err != nil {
		t.Fatal(err)
	}
	r, err := result.Read(strings.NewReader(said.Out))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Samples) != 1 || r.Samples[0].Error != "" {
		t.Fatalf("samples %+v", r.Samples)
	}
	figures := r.Samples[0].Metrics
	if figures[transit.PDR] <= 0 || figures[transit.PDR] > figures[transit.GeneratorCeiling] || figures[transit.NDR] > figures[transit.PDR] {
		t.Errorf("figures %v", figures)
	}
	t.Logf("NDR %.4f, PDR %.4f of a ceiling of %.4f Mpps", figures[transit.NDR], figures[transit.PDR], figures[transit.GeneratorCeiling])
	if ports := r.Parameters.Text("tx") + r.Parameters.Text("rx"); strings.Count(ports, driver.name) != 2 {
		t.Errorf("ports %s", ports)
	}
	counted(t, m, d)
}

// queuesIn are the counters of frames that XDP took of each queue of a driver, as awk patterns for ethtool -S.
var queuesIn = map[string]string{"virtio_net": "^ *rx[0-9]_xdp_packets:", "vmxnet3": "^ *xdp packets:"}

// counted: several queues of the sink's interface took frames, as RSS spreads them.
func counted(t *testing.T, m *debian.Machine, d int) {
	t.Helper()
	driver := drivers[d].name
	all := m.Must(fmt.Sprintf("ip netns exec tester%d ethtool -S rx%[1]d", d))
	busy := m.Must(fmt.Sprintf("ip netns exec tester%d ethtool -S rx%[1]d | awk '/%s/ && $NF > 0' | wc -l", d, queuesIn[driver]))
	want := map[string]string{"virtio_net": "2", "vmxnet3": "1"}[driver] // QEMU's vmxnet3 has no RSS
	if busy != want {
		t.Errorf("%s receive queues took frames, want %s:\n%s", busy, want, all)
	}
}
