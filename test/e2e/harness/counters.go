package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
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

// WatchErrors returns a fact to call later: from now until then nobody sees a
// wrong checksum or header. What a peer sends before an edge runs is the host's.
func (n *Network) WatchErrors(hosts ...*topo.Host) (none func()) {
	n.T.Helper()
	before, err := errorsOf(hosts)
	n.Must(err)
	return func() {
		n.T.Helper()
		n.Once("no checksum or header error anywhere", func() error {
			after, err := errorsOf(hosts)
			if err == nil && !reflect.DeepEqual(before, after) {
				err = fmt.Errorf("%v, before it was %v", after, before)
			}
			return err
		})
	}
}

// Drops are the reasons that the edge on a host has dropped packets for.
func (n *Network) Drops(host string) (map[string]uint64, error) {
	all, err := n.Ask(host).Drops(context.WithoutCancel(n.Ctx))
	if err != nil {
		return nil, err
	}
	happened := map[string]uint64{}
	for _, d := range all {
		if d.Packets > 0 {
			happened[d.Reason] = d.Packets
		}
	}
	return happened, nil
}

// WatchDrops returns a fact to call later: from now until then the edges dropped nothing, but
// for the reasons named.
func (n *Network) WatchDrops(but ...string) (none func()) {
	n.T.Helper()
	before := map[string]map[string]uint64{}
	for host := range n.Edges {
		drops, err := n.Drops(host)
		n.Must(err)
		before[host] = drops
	}
	return func() {
		n.T.Helper()
		for host, was := range before {
			n.Once("edge on "+host+" has dropped nothing since", func() error {
				drops, err := n.Drops(host)
				for reason, packets := range drops {
					if packets > was[reason] && !slices.Contains(but, reason) {
						err = errors.Join(err, fmt.Errorf("%d packets for %s", packets-was[reason], reason))
					}
				}
				return err
			})
		}
	}
}

// NoDrops is a fact: the edges dropped nothing, but for the reasons named.
func (n *Network) NoDrops(but ...string) {
	n.T.Helper()
	for host := range n.Edges {
		n.Once("edge on "+host+" drops nothing", func() error {
			drops, err := n.Drops(host)
			for reason, packets := range drops {
				if !slices.Contains(but, reason) {
					err = errors.Join(err, fmt.Errorf("%d packets for %s", packets, reason))
				}
			}
			return err
		})
	}
}

// Gro is a fact: generic receive offload of an interface is "on" or "off".
func (n *Hub) Gro(h *topo.Host, name, state string) {
	n.T.Helper()
	_, err := h.Output(n.Ctx, "ethtool", "-K", name, "gro", state)
	n.Must(err)
}

// Metric is the value of the line that begins so.
func Metric(text, begin string) (float64, error) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, begin) {
			return strconv.ParseFloat(line[strings.LastIndex(line, " ")+1:len(line)-1], 64)
		}
	}
	return 0, errors.New("there is no such line")
}
