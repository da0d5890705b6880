package experiment

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/topo"
)

// Counters are the network counters of one or several hosts, by the names of
// nstat(8): "TcpInCsumErrors".
type Counters map[string]uint64

// damaged are the counters that rise when a packet arrives with a wrong checksum
// or header. They have to stand still on every path.
func damaged() []string {
	return []string{
		"TcpInCsumErrors", "UdpInCsumErrors", "Udp6InCsumErrors", "IcmpInCsumErrors", "Icmp6InCsumErrors",
		"IpInHdrErrors", "Ip6InHdrErrors", "IpExtInCsumErrors",
	}
}

// Counters beside iperf3's retransmits: with both at 0 those were loss, else they
// were reordering.
const (
	DSACKsReceived = "TcpExtTCPDSACKRecv"
	OutOfOrder     = "TcpExtTCPOFOQueue"
)

// ReadCounters adds up the counters of the hosts of n.
func ReadCounters(n *topo.TwoHosts) (Counters, error) {
	sum := Counters{}
	for _, h := range []*topo.Host{n.Client, n.A, n.B, n.Server} {
		err := h.Do(func() error {
			for _, file := range []string{"snmp", "netstat", "snmp6"} {
				// Of this thread: the process as a whole is in another namespace.
				data, err := os.ReadFile("/proc/thread-self/net/" + file)
				if err != nil {
					return err
				}
				if err := sum.add(data); err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("counters of %s: %w", h.Name, err)
		}
	}
	return sum, nil
}

// add reads lines of "Name value" and pairs of lines "Group: name …" and
// "Group: value …".
func (c Counters) add(data []byte) error {
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		names, values := fields[:1], fields[1:]
		group, paired := strings.CutSuffix(fields[0], ":")
		if paired {
			lines.Scan()
			names, values = fields[1:], strings.Fields(strings.TrimPrefix(lines.Text(), group+":"))
		} else {
			group = ""
		}
		if len(names) != len(values) {
			return fmt.Errorf("%s has %d names and %d values", fields[0], len(names), len(values))
		}
		for i, name := range names {
			value, err := strconv.ParseInt(values[i], 10, 64) // MaxConn is -1
			if err != nil {
				return fmt.Errorf("%s%s: %w", group, name, err)
			}
			c[group+name] += uint64(value)
		}
	}
	return nil
}

// Since returns by how much the named counters rose after an earlier look, and
// which did.
func (c Counters) Since(then Counters, names ...string) (sum uint64, rose []string) {
	for _, name := range names {
		if by := c[name] - then[name]; by != 0 {
			sum += by
			rose = append(rose, fmt.Sprintf("%s +%d", name, by))
		}
	}
	return sum, rose
}

// Damage puts into metrics how many packets arrived damaged since an earlier look. Any is an error.
func (c Counters) Damage(then Counters, metrics map[string]float64) error {
	rose, which := c.Since(then, damaged()...)
	metrics[CsumErrors] = float64(rose)
	if rose > 0 {
		return fmt.Errorf("%d packets arrived damaged (%s)", rose, strings.Join(which, ", "))
	}
	return nil
}
