package doctor

import (
	"fmt"
	"strings"

	"github.com/selvage/selvage/internal/doctor/fix"
)

// The NSX edge study configured rings of 512 to 4096 descriptors.
const leastRing, mostRing = 512, 4096

// tolerance is the loss that the NSX edge study accepted: 0.01 %.
const tolerance = 1e-4

// checkRings looks for rings that are smaller than they could be and should be.
func checkRings(inv *Inventory) []Finding {
	var found []Finding
	for _, l := range inv.of(Underlay, Port, Spare) {
		if l.NIC == nil || l.NIC.Ring == nil || l.NIC.Ring.RxMax == 0 && l.NIC.Ring.TxMax == 0 {
			continue
		}
		r := *l.NIC.Ring
		small := r.Rx < min(leastRing, r.RxMax) || r.Tx < min(leastRing, r.TxMax)
		lossy := l.Counters.RxNoRoom > 0 && r.Rx < min(mostRing, r.RxMax)
		if !small && !lossy {
			found = append(found, good("rings", l.Name, "%d receive and %d transmit descriptors of at most %d and %d", r.Rx, r.Tx, r.RxMax, r.TxMax))
			continue
		}
		rx, tx := min(mostRing, r.RxMax), min(mostRing, r.TxMax)
		f := Finding{
			Check: "rings", Severity: Warning, Subject: l.Name,
			What: fmt.Sprintf("the rings of %s have %d receive and %d transmit descriptors, of at most %d and %d", l.Name, r.Rx, r.Tx, r.RxMax, r.TxMax),
			Evidence: fmt.Sprintf("ethtool -g %s: RX %d of %d, TX %d of %d; %d packets were dropped for lack of room since the interface was created",
				fix.Quote(l.Name), r.Rx, r.RxMax, r.Tx, r.TxMax, l.Counters.RxNoRoom),
			Why: fmt.Sprintf("At 2.5 Mpps, what the NSX edge study forwarded per core, %d descriptors last %.0f µs: a longer pause of the core loses packets. "+
				"That study set 512 to 4096.", r.Rx, float64(r.Rx)/2.5),
			Measure: []string{fix.Line("ethtool -S %s | grep -iE 'drop|miss|no_buf|fifo'  # before and after iperf3 -c SERVER -u -b 0 -t 10", l.Name)},
		}
		do, undo := []string{"ethtool", "-G", l.Name}, []string{"ethtool", "-G", l.Name}
		if r.Rx < rx {
			do, undo = append(do, "rx", fmt.Sprint(rx)), append(undo, "rx", fmt.Sprint(r.Rx))
		}
		if r.Tx < tx {
			do, undo = append(do, "tx", fmt.Sprint(tx)), append(undo, "tx", fmt.Sprint(r.Tx))
		}
		f.fix(fix.Fix{Interface: l.Name, Do: fix.Run(do...), Undo: fix.Run(undo...)})
		found = append(found, f)
	}
	return found
}

// checkPause looks for link level flow control.
func checkPause(inv *Inventory) []Finding {
	var found []Finding
	for _, l := range inv.adapters() {
		p := l.NIC.Pause
		if p == nil {
			continue
		}
		if !p.Rx && !p.Tx {
			found = append(found, good("pause", l.Name, "no pause frames"))
			continue
		}
		seen := l.counters("pause", "xon", "xoff")
		severity, evidence := Note, "no pause frame counted"
		if len(seen) > 0 {
			severity, evidence = Warning, few(seen)
		}
		set := func(autoneg, rx, tx bool) fix.Command {
			argv := []string{"ethtool", "-A", l.Name}
			if p.Autoneg {
				argv = append(argv, "autoneg", onOff(autoneg))
			}
			return fix.Run(append(argv, "rx", onOff(rx), "tx", onOff(tx))...)
		}
		x := fix.Fix{Interface: l.Name, Do: set(false, false, false), Undo: set(p.Autoneg, p.Rx, p.Tx)}
		found = append(found, Finding{
			Check: "pause", Severity: severity, Subject: l.Name,
			What:     fmt.Sprintf("pause frames are on (receive %s, transmit %s)", onOff(p.Rx), onOff(p.Tx)),
			Evidence: fmt.Sprintf("ethtool -a %s; %s", fix.Quote(l.Name), evidence),
			Why: "One slow receiver stops the whole link, all tunnels and all remotes. The NSX edge study measured with flow control off; " +
				"a pause of 65,535 quanta of 512 bits (IEEE 802.3 annex 31B) is 3.4 ms at 10 Gbit/s.",
			Change:  []string{x.Do.String() + "  # on the switch port too"},
			Fixes:   []fix.Fix{x},
			Measure: []string{fix.Line("ethtool -S %s | grep -iE 'pause|xo(n|ff)'", l.Name), iperf},
		})
	}
	return found
}

// counters are those of the driver whose name has one of the words.
func (l *Link) counters(words ...string) []string {
	var found []string
	for _, name := range sorted(l.NIC.Counters) {
		for _, w := range words {
			if strings.Contains(strings.ToLower(name), w) {
				found = append(found, fmt.Sprintf("%s %d", name, l.NIC.Counters[name]))
				break
			}
		}
	}
	return found
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// loss is a counter of lost packets and what it means.
type loss struct {
	what  string
	lost  uint64
	of    uint64 // packets that were not
	why   string
	fixes []string
}

// checkDrops looks at what interfaces lost since they were made.
func checkDrops(inv *Inventory) []Finding {
	var found []Finding
	for _, l := range inv.of(Underlay, Device, Port, Spare) {
		if l.NIC == nil {
			continue
		}
		lost := false
		for _, s := range l.losses() {
			if s.lost == 0 {
				continue
			}
			lost = true
			found = append(found, l.lossy(s))
		}
		if !lost {
			found = append(found, good("drops", l.Name, "no packet lost of %d received and %d sent", l.Counters.RxPackets, l.Counters.TxPackets))
		}
	}
	return found
}

func (l *Link) losses() []loss {
	c := l.Counters
	room := []string{}
	if r := l.NIC.Ring; r != nil && r.Rx < r.RxMax {
		room = append(room, fix.Line("ethtool -G %s rx %d", l.Name, min(mostRing, r.RxMax)))
	}
	if q := l.NIC.Channels; q != nil && q.Combined < q.CombinedMax {
		room = append(room, fix.Line("ethtool -L %s combined %d", l.Name, q.CombinedMax))
	}
	return []loss{
		{"found no room in the receive ring", c.RxNoRoom, c.RxPackets, "The core that empties the ring came too late.", room},
		{"arrived damaged", c.RxErrors, c.RxPackets, "Cable, transceiver or a speed mismatch; on a tunnel device, headers that do not fit.", nil},
		{"could not be sent", c.TxErrors, c.TxPackets, "On a tunnel device: no route, no neighbour, or too large for the underlay.", nil},
		{"were dropped on sending", c.TxDropped, c.TxPackets, "A full queue, or a peer that is down.", nil},
		{"were dropped by the kernel on receipt", c.RxDropped, c.RxPackets, "A full backlog, an unknown protocol or VLAN, or no bridge port to forward them to.", nil},
	}
}

func (l *Link) lossy(s loss) Finding {
	share := float64(s.lost) / float64(s.lost+s.of)
	severity := Note
	if share > tolerance {
		severity = Warning
	}
	evidence := fmt.Sprintf("ip -s -s link show dev %s, since it was created", fix.Quote(l.Name))
	if details := l.counters("drop", "miss", "discard", "buf", "fifo", "over", "crc"); len(details) > 0 {
		evidence += "; ethtool -S: " + few(details)
	}
	return Finding{
		Check: "drops", Severity: severity, Subject: l.Name,
		What:     fmt.Sprintf("%d packets of %s %s, %.3g %%", s.lost, l.Name, s.what, 100*share),
		Evidence: evidence,
		Why: s.why + " The NSX edge study accepted at most 0.01 % loss; TCP takes each loss for congestion. " +
			"The counter does not say when they were lost: read it twice.",
		Change:  s.fixes,
		Measure: []string{fix.Line("ip -s -s link show dev %s; iperf3 -c SERVER -t 10; ip -s -s link show dev %s", l.Name, l.Name)},
	}
}

// checkSoftnet looks at the backlog of each CPU.
func checkSoftnet(inv *Inventory) []Finding {
	var processed, dropped, squeezed uint64
	var cpus []string
	for _, s := range inv.Softnet {
		processed, dropped, squeezed = processed+s.Processed, dropped+s.Dropped, squeezed+s.Squeezed
		if s.Dropped > 0 {
			cpus = append(cpus, fmt.Sprint(s.CPU))
		}
	}
	var found []Finding
	const measure = "cat /proc/net/softnet_stat; iperf3 -c SERVER -t 10 -P 16; cat /proc/net/softnet_stat  # columns 2 and 3, hexadecimal"
	if dropped > 0 {
		severity := Note
		if float64(dropped)/float64(dropped+processed) > tolerance {
			severity = Warning
		}
		found = append(found, Finding{
			Check: "softnet", Severity: severity, Subject: "host",
			What:     fmt.Sprintf("%d packets were dropped because a core's backlog was full", dropped),
			Evidence: fmt.Sprintf("/proc/net/softnet_stat: CPUs %s, of %d packets processed since boot", few(cpus), processed),
			Why:      "Packets that go to another core (RPS, veth, the kernel's tunnels) wait in a queue of net.core.netdev_max_backlog. The NSX edge study accepted at most 0.01 % loss.",
			Change:   []string{"sysctl -w net.core.netdev_max_backlog=4096"},
			Fixes:    sysctlFixes(inv, "net.core.netdev_max_backlog", "4096"),
			Measure:  []string{measure},
		})
	}
	const often = 1e-3 // of packets; a squeeze ends a round of up to netdev_budget = 300
	if processed > 0 && float64(squeezed)/float64(processed) > often {
		found = append(found, Finding{
			Check: "softnet", Severity: Note, Subject: "host",
			What:     fmt.Sprintf("receive processing exhausted its budget %d times", squeezed),
			Evidence: fmt.Sprintf("/proc/net/softnet_stat: time_squeeze, of %d packets processed since boot", processed),
			Why:      "Each time, packets waited for the next round. By default a round ends after 300 packets or 2 ms, or 8 ms with 250 ticks a second. It first costs latency, then overruns the ring.",
			Change:   []string{"sysctl -w net.core.netdev_budget=600 net.core.netdev_budget_usecs=8000"},
			Fixes:    sysctlFixes(inv, "net.core.netdev_budget", "600", "net.core.netdev_budget_usecs", "8000"),
			Measure:  []string{measure},
		})
	}
	if len(found) == 0 && len(inv.Softnet) > 0 {
		found = append(found, good("softnet", "host", "no packet of %d dropped in a backlog, %d rounds ended early", processed, squeezed))
	}
	return found
}
