package gen

import (
	"testing"
	"time"

	"github.com/selvage/selvage/test/tier"
)

// What the generator reaches by itself on one core: with a sink that only counts,
// that follows flows too, and that times frames as well; in a tunnel, with many
// flows, large frames and mixed sizes.
func BenchmarkCeiling(b *testing.B) {
	tier.Root(b)
	counted, followed := SinkOptions{}, SinkOptions{Flows: DefaultFlows}
	for name, l := range map[string]Loop{
		"count":       {Stream: Stream{Frame: 64}, Sink: counted, Load: Load{Untimed: true}},
		"follow":      {Stream: Stream{Frame: 64}, Sink: followed, Load: Load{Untimed: true}},
		"time":        {Stream: Stream{Frame: 64}, Sink: SinkOptions{Flows: DefaultFlows, Latency: true}},
		"tunnel":      {Stream: Stream{Frame: 64}, Tunnel: LoopTunnel("vxlan", 4), Sink: counted, Load: Load{Untimed: true}},
		"tunnelIPv6":  {Stream: Stream{Frame: 84, Family: 6}, Tunnel: LoopTunnel("vxlan", 6), Sink: counted, Load: Load{Untimed: true}},
		"millionFlow": {Stream: Stream{Frame: 64, Flows: 1_000_000}, Sink: SinkOptions{Flows: 1_000_000}, Load: Load{Untimed: true}},
		"1518":        {Stream: Stream{Frame: 1518}, Sink: counted, Load: Load{Untimed: true}},
		"imix":        {Stream: Stream{IMIX: []Share{{64, 7}, {594, 4}, {1518, 1}}}, Sink: counted, Load: Load{Untimed: true}},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				l.Load.Duration = 100 * time.Millisecond
				self, err := Ceiling(b.Context(), l)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(self.Median/1e6, "Mpps")
				b.ReportMetric((self.Most-self.Least)/self.Median, "spread")
				b.ReportMetric(float64(self.Last.Busy)/float64(self.Last.Frames), "busy-ns/frame")
			}
		})
	}
}
