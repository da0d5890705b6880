package agent

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
)

// Watched is what a machine did in a time.
type Watched struct {
	Duration time.Duration `json:"duration"`
	CPU      measure.CPU   `json:"cpu"`
	Counters
}

// Counters are those of the kernel, or what they grew by. What did not grow is left out.
type Counters struct {
	Softnet    []Softnet          `json:"softnet"`    // of each core
	Interfaces map[string]Traffic `json:"interfaces"` // of the namespace
	Protocols  map[string]int64   `json:"protocols"`  // of the namespace, as Tcp.RetransSegs
	Drops      []result.Drop      `json:"drops"`      // of interfaces, drivers and qdiscs of the namespace
	Pauses     map[string]int64   `json:"pauses"`     // of interfaces: frames of flow control that were sent or came, as far as drivers count them
}

// Softnet is a line of /proc/net/softnet_stat.
type Softnet struct {
	Processed int64 `json:"processed"` // packets
	Dropped   int64 `json:"dropped"`   // packets, for which the backlog had no room
	Squeezed  int64 `json:"squeezed"`  // times that the budget of net_rx_action was used up
}

// Traffic is what /sys/class/net/NAME/statistics has, of /proc/net/dev: sysfs shows the
// namespace in which it was mounted, which need not be the agent's.
type Traffic struct {
	RxBytes   int64 `json:"rx_bytes"`
	RxPackets int64 `json:"rx_packets"`
	RxErrors  int64 `json:"rx_errors"`
	RxDropped int64 `json:"rx_dropped"`
	RxFIFO    int64 `json:"rx_fifo"`
	TxBytes   int64 `json:"tx_bytes"`
	TxPackets int64 `json:"tx_packets"`
	TxErrors  int64 `json:"tx_errors"`
	TxDropped int64 `json:"tx_dropped"`
}

// judge refuses what no agent can have seen.
func (w Watched) judge() error {
	if w.Duration <= 0 || !(w.CPU.Busy >= 0) || !(w.CPU.Steal >= 0) {
		return fmt.Errorf("the place says that its cores were busy for %g s of %s, and %g of them stolen", w.CPU.Busy, w.Duration, w.CPU.Steal)
	}
	return nil
}

// watch looks twice.
func watch(ctx context.Context, d time.Duration) (Watched, error) {
	began := time.Now()
	cpu, err := measure.ReadCPU()
	if err != nil {
		return Watched{}, err
	}
	counters, err := readCounters()
	if err != nil {
		return Watched{}, err
	}
	select {
	case <-ctx.Done():
		return Watched{}, context.Cause(ctx)
	case <-time.After(d):
	}
	cpuNow, err := measure.ReadCPU()
	if err != nil {
		return Watched{}, err
	}
	now, err := readCounters()
	if err != nil {
		return Watched{}, err
	}
	return Watched{Duration: time.Since(began), CPU: cpuNow.Since(cpu), Counters: now.since(counters)}, nil
}

// readCounters reads those of this process's namespace, and softnet's of the machine.
func readCounters() (c Counters, err error) {
	if c.Softnet, err = readSoftnet("/proc/net/softnet_stat"); err != nil {
		return c, err
	}
	if c.Interfaces, err = readTraffic("/proc/net/dev"); err != nil {
		return c, err
	}
	if c.Drops, c.Pauses, err = readDrops(); err != nil {
		return c, err
	}
	c.Protocols = map[string]int64{}
	for _, path := range []string{"/proc/net/snmp", "/proc/net/netstat"} {
		if err := readProtocols(path, c.Protocols); err != nil {
			return c, err
		}
	}
	return c, readProtocols6("/proc/net/snmp6", c.Protocols)
}

func (c Counters) since(then Counters) Counters {
	grown := Counters{Interfaces: map[string]Traffic{}, Protocols: map[string]int64{}, Drops: dropsSince(c.Drops, then.Drops), Pauses: map[string]int64{}}
	for name, n := range c.Pauses {
		if n -= then.Pauses[name]; n > 0 {
			grown.Pauses[name] = n
		}
	}
	for i, s := range c.Softnet {
		if i < len(then.Softnet) {
			old := then.Softnet[i]
			s = Softnet{s.Processed - old.Processed, s.Dropped - old.Dropped, s.Squeezed - old.Squeezed}
		}
		grown.Softnet = append(grown.Softnet, s)
	}
	for name, t := range c.Interfaces {
		if t = t.since(then.Interfaces[name]); t != (Traffic{}) {
			grown.Interfaces[name] = t
		}
	}
	for name, n := range c.Protocols {
		if n -= then.Protocols[name]; n != 0 {
			grown.Protocols[name] = n
		}
	}
	return grown
}

func (t Traffic) since(then Traffic) Traffic {
	return Traffic{
		t.RxBytes - then.RxBytes, t.RxPackets - then.RxPackets, t.RxErrors - then.RxErrors, t.RxDropped - then.RxDropped, t.RxFIFO - then.RxFIFO,
		t.TxBytes - then.TxBytes, t.TxPackets - then.TxPackets, t.TxErrors - then.TxErrors, t.TxDropped - then.TxDropped,
	}
}

// eachLine calls f with the words of each line.
func eachLine(path string, f func(words []string) error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("counters: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if err := f(strings.Fields(lines.Text())); err != nil {
			return fmt.Errorf("counters in %s: %w", path, err)
		}
	}
	return lines.Err()
}

func readSoftnet(path string) (all []Softnet, err error) {
	err = eachLine(path, func(words []string) error {
		var s Softnet
		for i, to := range []*int64{&s.Processed, &s.Dropped, &s.Squeezed} {
			if i >= len(words) {
				break
			}
			n, err := strconv.ParseUint(words[i], 16, 32)
			if err != nil {
				return err
			}
			*to = int64(n)
		}
		all = append(all, s)
		return nil
	})
	return all, err
}

func readTraffic(path string) (map[string]Traffic, error) {
	all := map[string]Traffic{}
	err := eachLine(path, func(words []string) error {
		if len(words) < 17 || !strings.HasSuffix(words[0], ":") {
			return nil // the heading
		}
		var t Traffic
		for column, to := range map[int]*int64{
			1: &t.RxBytes, 2: &t.RxPackets, 3: &t.RxErrors, 4: &t.RxDropped, 5: &t.RxFIFO,
			9: &t.TxBytes, 10: &t.TxPackets, 11: &t.TxErrors, 12: &t.TxDropped,
		} {
			n, err := strconv.ParseInt(words[column], 10, 64)
			if err != nil {
				return err
			}
			*to = n
		}
		all[strings.TrimSuffix(words[0], ":")] = t
		return nil
	})
	return all, err
}

// readProtocols reads pairs of lines, names and values, that begin with the protocol.
func readProtocols(path string, into map[string]int64) error {
	var names []string
	return eachLine(path, func(words []string) error {
		if len(names) == 0 {
			names = words
			return nil
		}
		for i, word := range words[1:min(len(words), len(names))] {
			n, err := strconv.ParseInt(word, 10, 64)
			if err != nil {
				return err
			}
			into[strings.TrimSuffix(names[0], ":")+"."+names[i+1]] = n
		}
		names = nil
		return nil
	})
}

// readProtocols6 reads lines of a name and a value. A kernel without IPv6 has no such file.
func readProtocols6(path string, into map[string]int64) error {
	if _, err := os.Stat(path); os.IsNotExist(err) {
		return nil
	}
	return eachLine(path, func(words []string) error {
		if len(words) != 2 {
			return nil
		}
		n, err := strconv.ParseInt(words[1], 10, 64)
		into[words[0]] = n
		return err
	})
}
