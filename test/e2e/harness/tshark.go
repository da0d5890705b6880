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

// guessed are the protocols that tshark finds where none is: by a port that a client
// happens to have (IRC on 57000), or by a look at the payload (Thrift). Both find fault with
// random data.
var guessed = sync.OnceValues(func() (names []string, err error) {
	const firstEphemeral = 32768 // of Linux
	add := func(list, columns string, match func(f []string) bool) {
		var out []byte
		if err != nil {
			return
		}
		if out, err = exec.Command("tshark", "-G", list).Output(); err != nil {
			err = fmt.Errorf("list the %s of tshark: %w", list, err)
			return
		}
		for line := range strings.Lines(string(out)) {
			f := strings.Fields(line)
			if len(f) != 3 || !match(f) {
				continue
			}
			if name := f[strings.Index(columns, "P")]; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	add("decodes", "TNP", func(f []string) bool { // table, number, protocol
		port, err := strconv.Atoi(f[1])
		return (f[0] == "tcp.port" || f[0] == "udp.port") && err == nil && port >= firstEphemeral
	})
	add("heuristic-decodes", "TPE", func(f []string) bool { return f[0] == "tcp" || f[0] == "udp" }) // table, protocol, enabled
	return names, err
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
	others, err := guessed()
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
// those are checked on the underlay, where each packet is by itself. A reset is none: who closes a socket with data
// that nobody read sends one, such as a BGP speaker that is told of the end of its session.
func (n *Network) Faultless(file string) {
	n.T.Helper()
	whole := "!(tcp.checksum == 0xffff) && frame.len < 1600"
	if !strings.HasSuffix(file, "-u0.pcap") {
		whole = "!(tcp.checksum == 0xffff) && tcp.len == 0"
	}
	n.Once("tshark finds no fault in "+filepath.Base(file), func() error {
		lines, err := n.Tshark(file, "_ws.malformed || (_ws.expert.severity >= warning && !tcp.options.sack.dsack && !tcp.analysis.flags && !tcp.connection.rst && (!tcp || "+whole+")) ||"+
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
