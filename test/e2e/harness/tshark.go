package harness

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/selvage/selvage/lab/topo"
)

// onEphemeralPorts are the protocols that tshark takes a connection for whose client
// happens to have their port: IRC on 57000 finds fault with random data.
var onEphemeralPorts = sync.OnceValues(func() (names []string, err error) {
	const firstEphemeral = 32768 // of Linux
	out, err := exec.Command("tshark", "-G", "decodes").Output()
	if err != nil {
		return nil, fmt.Errorf("list what tshark decodes: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line) // table, port, protocol
		if len(f) != 3 || f[0] != "tcp.port" && f[0] != "udp.port" {
			continue
		}
		if port, err := strconv.Atoi(f[1]); err == nil && port >= firstEphemeral && !slices.Contains(names, f[2]) {
			names = append(names, f[2])
		}
	}
	return names, nil
})

// Tshark prints the packets of a capture that a filter finds, or fields of them.
func (n *Network) Tshark(file, filter string, fields ...string) ([]string, error) {
	argv := []string{
		"-n", "-r", file, "-Y", filter,
		"-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE",
		"-o", "udp.ignore_ipv6_zero_checksum:TRUE", // RFC 6935
		// What TCP does about time and loss is no fault of a header.
		"-o", "tcp.analyze_sequence_numbers:FALSE",
	}
	for _, f := range fields {
		argv = append(argv, "-T", "fields", "-e", f)
	}
	others, err := onEphemeralPorts()
	if err != nil {
		return nil, err
	}
	for _, name := range others {
		argv = append(argv, "--disable-protocol", name)
	}
	out, err := exec.CommandContext(n.Ctx, "tshark", argv...).Output()
	text := strings.TrimSpace(string(out))
	if text == "" {
		return nil, err
	}
	return strings.Split(text, "\n"), err
}

// Faultless holds when tshark reads a capture without a complaint. Linux writes the TCP
// checksum zero as 0xffff, as UDP wants it. At a guest, TCP data may have been put
// together again from several packets, also small ones, and then has no checksum yet:
// those are checked on the underlay, where each packet is by itself.
func (n *Network) Faultless(file string) {
	n.T.Helper()
	whole := "!(tcp.checksum == 0xffff) && frame.len < 1600"
	if !strings.HasSuffix(file, "-u0.pcap") {
		whole = "!(tcp.checksum == 0xffff) && tcp.len == 0"
	}
	n.Once("tshark finds no fault in "+filepath.Base(file), func() error {
		lines, err := n.Tshark(file, "_ws.malformed || (_ws.expert.severity >= warning && !tcp.options.sack.dsack && !tcp.analysis.flags && (!tcp || "+whole+")) ||"+
			" ip.checksum.status == bad || udp.checksum.status == bad || (tcp.checksum.status == bad && "+whole+") || icmp.checksum.status == bad || icmpv6.checksum.status == bad")
		if err == nil && len(lines) > 0 {
			err = fmt.Errorf("%d faults:\n%s", len(lines), strings.Join(lines[:min(10, len(lines))], "\n"))
		}
		return err
	})
}

// Sees holds when tshark finds at least so many packets that match a filter.
func (n *Network) Sees(file string, least int, filter string) {
	n.T.Helper()
	n.Once("tshark sees "+filter, func() error {
		lines, err := n.Tshark(file, filter)
		if err == nil && len(lines) < least {
			err = fmt.Errorf("%d packets in %s, want %d", len(lines), filepath.Base(file), least)
		}
		return err
	})
}

// Finished has interfaces finish their checksums, and thus segments, themselves.
func (n *Network) Finished(name string, hosts ...*topo.Host) {
	n.T.Helper()
	for _, h := range hosts {
		_, err := h.SetFeatures(name, map[string]bool{"tx-checksum-ip-generic": false})
		n.Must(err)
	}
}
