package e2e

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/topo"
)

// protocolErrors are the counters that a wrong header or checksum raises, those
// that are not zero, by file and name.
func protocolErrors(h *topo.Host) (wrong map[string]uint64, err error) {
	wrong = map[string]uint64{}
	err = h.Do(func() error {
		for _, file := range []string{"snmp", "snmp6", "netstat"} {
			text, err := os.ReadFile("/proc/thread-self/net/" + file)
			if err != nil {
				return err
			}
			for name, value := range counters(string(text)) {
				if value > 0 && (strings.HasSuffix(name, "CsumErrors") || strings.HasSuffix(name, "HdrErrors")) {
					wrong[name] = value
				}
			}
		}
		return nil
	})
	return wrong, err
}

// counters reads either form of proc_net(5): "Tcp: A B" above "Tcp: 1 2", or
// "Ip6A 1" on a line each.
func counters(text string) map[string]uint64 {
	values := map[string]uint64{}
	var names []string
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 2 && !strings.HasSuffix(words[0], ":"):
			values[words[0]], _ = strconv.ParseUint(words[1], 10, 64)
		case len(names) == len(words) && names[0] == words[0]:
			for i := 1; i < len(words); i++ {
				values[words[0]+names[i]], _ = strconv.ParseUint(words[i], 10, 64) // MaxConn is -1
			}
			names = nil
		default:
			names = words
		}
	}
	return values
}

// errorsOf are the protocol errors of several hosts, by host.
func errorsOf(hosts []*topo.Host) (map[string]map[string]uint64, error) {
	all := map[string]map[string]uint64{}
	var errs []error
	for _, h := range hosts {
		wrong, err := protocolErrors(h)
		all[h.Name] = wrong
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}

// watchErrors returns a fact to call later: from now until then nobody sees a
// wrong checksum or header. What a peer sends before an edge runs is the host's.
func (n *network) watchErrors(hosts ...*topo.Host) (none func()) {
	n.t.Helper()
	before, err := errorsOf(hosts)
	n.must(err)
	return func() {
		n.t.Helper()
		n.once("no checksum or header error anywhere", func() error {
			after, err := errorsOf(hosts)
			if err == nil && !reflect.DeepEqual(before, after) {
				err = fmt.Errorf("%v, before it was %v", after, before)
			}
			return err
		})
	}
}
