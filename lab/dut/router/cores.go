package router

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/topo"
)

// Thread has the device's interfaces received from by kernel threads of their own, on
// one core; so the device no longer runs on the core that sends to it.
func (t *Transit) Thread(ctx context.Context, core int) error {
	for _, k := range t.Links() {
		before, err := napiThreads(k.Device)
		if err != nil {
			return err
		}
		// ip netns exec shows /sys as the namespace has it.
		file := filepath.Join("/sys/class/net", k.Device, "threaded")
		if err := t.Device.Command(ctx, "ip", "netns", "exec", t.Device.Namespace, "sh", "-c", "echo 1 > "+file).Run(); err != nil {
			return fmt.Errorf("receive from %s by threads: %w", k.Device, err)
		}
		after, err := napiThreads(k.Device)
		if err != nil {
			return err
		}
		maps.DeleteFunc(after, func(pid int, _ bool) bool { return before[pid] })
		if len(after) == 0 {
			return fmt.Errorf("receive from %s by threads: there is none", k.Device)
		}
		for _, pid := range slices.Sorted(maps.Keys(after)) {
			if err := topo.Pin(pid, core); err != nil {
				return err
			}
		}
	}
	return nil
}

// napiThreads are the kernel threads that receive from interfaces of a name, in all
// namespaces: their names do not tell more.
func napiThreads(device string) (map[int]bool, error) {
	files, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return nil, err
	}
	threads := map[int]bool{}
	for _, file := range files {
		name, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(name), "napi/"+device+"-") { // it ended meanwhile
			continue
		}
		pid, err := strconv.Atoi(strings.Split(file, "/")[2])
		if err != nil {
			return nil, err
		}
		threads[pid] = true
	}
	return threads, nil
}

// DroppedByXDP begins the names of what XDP programs dropped on purpose.
const DroppedByXDP = "dropped by XDP at "

// DriverDrops are the frames that died at the device's interfaces and that no reason of
// the kernel names: those that XDP programs dropped on purpose, and skbs that the other
// end had no room for.
func (t *Transit) DriverDrops() (map[string]uint64, error) {
	counts := map[string]uint64{}
	for _, k := range t.Links() {
		all, full, err := t.Device.DriverStats(k.Device)
		if err != nil {
			return nil, err
		}
		for name, n := range all {
			switch {
			case strings.HasPrefix(name, "rx_queue_") && strings.HasSuffix(name, "_xdp_drops"):
				counts[DroppedByXDP+k.Device] += n
			case strings.HasPrefix(name, "tx_queue_") && strings.HasSuffix(name, "_xdp_xmit_errors"):
				full -= min(full, n) // after redirects, which have a reason
			}
		}
		counts["no room after "+k.Device] = full
	}
	return counts, nil
}
