package underlay

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// inRounds sends so many datagrams of each flow, and waits for all of them.
func inRounds(n *harness.Network, b *harness.Bundle, count int) {
	n.T.Helper()
	for i := range count {
		n.Must(b.Round(uint64(i)))
		n.Fact(fmt.Sprintf("round %d from %s has arrived", i+1, b.Name), func() error { return complete(b, uint64(i+1)) })
	}
	n.Fact(fmt.Sprintf("all flows from %s arrive", b.Name), func() error { return complete(b, uint64(count)) })
}

func complete(b *harness.Bundle, count uint64) error {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	if want := len(b.Sources) * len(b.Sinks); len(b.Flows) != want {
		return fmt.Errorf("%d of %d flows have arrived", len(b.Flows), want)
	}
	for ports, f := range b.Flows {
		if f.Next != count || f.Lost > 0 {
			return fmt.Errorf("flow %v: %d of %d, %d lost", ports, f.Next, count, f.Lost)
		}
	}
	return nil
}

// seenAt are the flows of bundles whose tunnel packets pass an interface, both ways.
func seenAt(n *harness.Network, h *topo.Host, name string, outer int, during time.Duration) map[harness.FlowPorts]bool {
	n.T.Helper()
	f, err := harness.OpenFrames(h, name, true)
	n.Must(err)
	defer f.Close()
	seen := map[harness.FlowPorts]bool{}
	inner := 14 + outer + 8 + 8 + 14 // Ethernet, IP, UDP, VXLAN, Ethernet
	for deadline := time.Now().Add(during); ; {
		frame, err := f.Next(deadline)
		if err != nil {
			return seen
		}
		if len(frame) < inner+28 || frame[inner]>>4 != 4 || frame[inner+9] != 17 {
			continue
		}
		seen[harness.FlowPorts{From: binary.BigEndian.Uint16(frame[inner+20:]), To: binary.BigEndian.Uint16(frame[inner+22:])}] = true
	}
}
