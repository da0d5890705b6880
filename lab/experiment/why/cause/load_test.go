package cause

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
)

// What grew in several slices adds up; packets without room that kernel and driver both count are counted once.
func TestLoad(t *testing.T) {
	var l Load
	for _, steal := range []float64{0.2, 0.1} {
		l.Add(agent.Watched{CPU: measure.CPU{Steal: steal}, Counters: agent.Counters{
			Softnet: []agent.Softnet{{Processed: 10}, {Dropped: 3}}, Pauses: map[string]int64{"eth0": 7},
			Drops: []result.Drop{
				{Stage: agent.StageNIC, Where: "eth0", Counter: "rx_missed_errors", Packets: 5}, {Stage: agent.StageNIC, Where: "eth0", Counter: "rx_fifo_errors", Packets: 1},
				{Stage: agent.StageNIC, Where: "eth0", Counter: "rx_no_buffer_count", Packets: 4}, {Stage: agent.StageNIC, Where: "eth1", Counter: "pkts rx OOB", Packets: 9},
				{Stage: agent.StageNIC, Where: "eth0", Counter: "rx_crc_errors", Packets: 100},
			},
		}})
		l.AddCores(agent.Watched{Counters: agent.Counters{Softnet: []agent.Softnet{{Processed: 900}, {Processed: 50}}}})
	}
	if diff := cmp.Diff(map[string]int64{"eth0": 12, "eth1": 18}, l.NoRoom); diff != "" {
		t.Errorf("no room (- want, + got):\n%s", diff)
	}
	if l.Pauses["eth0"] != 14 || l.Steal != 0.2 {
		t.Errorf("%+v", l)
	}
	if want := "NIC eth0 rx_crc_errors 200, NIC eth1 pkts rx OOB 18, NIC eth0 rx_missed_errors 10"; l.most() != want {
		t.Errorf("%s, want %s", l.most(), want)
	}
	if share, one := l.oneCore(); !one || share < 0.94 {
		t.Errorf("%v of one core: %t", share, one)
	}
}
