package stages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/measure"
)

var (
	gateway  = netip.MustParseAddr("192.0.2.3")
	server   = netip.MustParseAddr("203.0.113.1")
	egress   = netip.MustParseAddr("198.51.100.20")
	nodeAddr = netip.MustParseAddr("192.0.2.1")
)

func noProgress(string, ...any) {}

// network stands in for the instruments: what each stage carries, loses and shows, by name.
type network struct {
	rate   map[string]float64 // Gbit/s
	lost   map[string]uint64  // of 1000 datagrams
	seen   []netip.Addr       // of the pod outside, by turns
	errors map[string]error   // by stage, or stage and instrument
	calls  []string
}

func (n *network) do(_ context.Context, s Stage, role measure.Role) (client, server json.RawMessage, err error) {
	n.calls = append(n.calls, s.Name+" "+role.Instrument)
	if err := errors.Join(n.errors[s.Name], n.errors[s.Name+" "+role.Instrument]); err != nil {
		return nil, nil, err
	}
	switch role.Instrument {
	case measure.RolePeer:
		var peers []measure.Peer
		for i := range role.Flows {
			peers = append(peers, measure.Peer{Local: nodeAddr, Seen: n.seen[i%len(n.seen)]})
		}
		client, err = json.Marshal(peers)
	case measure.RoleBulk:
		var bytes []string
		for range int(role.Duration / (100 * time.Millisecond)) {
			bytes = append(bytes, fmt.Sprintf("%.0f", n.rate[s.Name]*1e9/8/10))
		}
		text := json.RawMessage(`{"bytes":[` + strings.Join(bytes, ",") + `],"sockets":[{"retransmits":2,"mss":1398}]}`)
		return text, text, nil
	case measure.RoleRR:
		client = json.RawMessage(`{"transactions":10,"elapsed_ns":1000000,"latency":{"LowestTrackableValue":1,"HighestTrackableValue":1000000000,"SignificantFigures":3,"Counts":[0,10]}}`)
	case measure.RoleUDP:
		client = json.RawMessage(`{"packets":1000,"elapsed_ns":1000000000}`)
		server = json.RawMessage(fmt.Sprintf(`{"packets":%d,"elapsed_ns":1000000000}`, 1000-n.lost[s.Name]))
	}
	return client, server, err
}

// report is of so many rounds.
func (n *network) report(t *testing.T, rounds int, list []Stage) Report {
	t.Helper()
	if n.seen == nil {
		n.seen = []netip.Addr{egress}
	}
	figures := Run(t.Context(), list, Options{Rounds: rounds, Slice: time.Second, Port: 5300, LossRate: 1e7}, n.do, noProgress)
	return Make(Facts{
		Pod: "shop/web1", Node: "n1", Gateway: "gw1", Server: "ssh:server", Expected: []netip.Addr{egress}, Own: map[netip.Addr]string{nodeAddr: "of the pod's node"},
		Offloads: []Offloads{{Place: "pod's node", Interface: "eth0", Off: []string{"tx-checksum-ip-generic"}}},
	}, figures)
}

// The first line is the finding: a leak, then what fails, lowest first, then what is slower.
func TestFinding(t *testing.T) {
	refused := errors.New("connection refused")
	all := List(false, gateway, server)
	even := map[string]float64{Node: 9, Pod: 9, Gateway: 9, Egress: 9}
	for _, c := range []struct {
		name, summary, loses string
		n                    network
		rounds               int
		problems             int
	}{
		{"healthy", "no leak in 72 connections, and no stage fails, and none is slower than what is below it", "", network{rate: even}, 8, 0},
		{"the tunnel is slow", "no leak in 72 connections, and no stage fails; stage egress loses most: it keeps 0.500 [0.500, 0.500] of the slower of node and gateway", Egress,
			network{rate: map[string]float64{Node: 9, Pod: 8, Gateway: 8, Egress: 4}}, 8, 0},
		{"few rounds", "no leak in 16 connections, and no stage fails; which one is slower takes at least 8 rounds, and there were 1", "",
			network{rate: map[string]float64{Node: 9, Pod: 9, Gateway: 9, Egress: 4}}, 1, 0},
		{"a leak and a stage that fails", "a leak: 36 of 72 connections of pod shop/web1 left with 192.0.2.1 of the pod's node, which no policy gives it (expected 198.51.100.20)", Node,
			network{rate: even, seen: []netip.Addr{nodeAddr, egress}, errors: map[string]error{Node: refused}}, 8, 2},
		{"nodes lose", "stage node (node to gateway, 192.0.2.3) fails: it loses 2 % of datagrams (160 of 8000)", Node, network{rate: even, lost: map[string]uint64{Node: 20, Egress: 20}}, 8, 2},
		{"few are lost", "no leak in 72 connections, and no stage fails, and none is slower than what is below it", "", network{rate: even, lost: map[string]uint64{Node: 5}}, 8, 0},
		{"the server does not answer", "stage gateway (gateway to server, 203.0.113.1) fails: connect: connection refused", Gateway,
			network{rate: even, errors: map[string]error{Gateway: refused, Egress: refused}}, 8, 2},
		{"large packets are lost", "stage egress (pod to server, 203.0.113.1) fails: TCP: connections are opened, and in 1.2s nothing of a transfer arrives", Egress,
			network{rate: map[string]float64{Node: 9, Pod: 9, Gateway: 9}}, 8, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := c.n.report(t, c.rounds, all)
			if !strings.HasPrefix(r.Summary, c.summary) || r.Loses != c.loses || len(r.Problems) != c.problems {
				t.Errorf("%s\nloses: %s\n%q", r.Summary, r.Loses, r.Problems)
			}
			var b strings.Builder
			if err := r.Text(&b); err != nil || !strings.HasPrefix(b.String(), r.Summary+"\n") {
				t.Errorf("%v\n%s", err, &b)
			}
		})
	}
}

// A stage that does not answer is measured no further, and what depends on it says so.
func TestFails(t *testing.T) {
	n := network{rate: map[string]float64{Node: 9, Pod: 9, Gateway: 9, Egress: 9}, errors: map[string]error{Node: errors.New("no route"), "egress udp": errors.New("no datagram came")}}
	r := n.report(t, 4, List(false, gateway, server))
	count := func(call string) (n2 int) {
		for _, c := range n.calls {
			if c == call {
				n2++
			}
		}
		return n2
	}
	if count("node peer") != 2 || count("node bulk") != 0 || count("egress udp") != mostErrors || count("egress bulk") != mostErrors || count("pod bulk") != 4 {
		t.Errorf("%q", n.calls)
	}
	if len(r.Problems) != 2 || r.Problems[0] != "stage node (node to gateway, 192.0.2.3) fails: connect: no route" || !strings.HasSuffix(r.Problems[1], "UDP: no datagram came (as stage node does, on which it depends)") {
		t.Errorf("%q", r.Problems)
	}
}

// Without a server there are the stages within the cluster, and on the gateway's node only those that leave it.
func TestList(t *testing.T) {
	names := func(list []Stage) (out []string) {
		for _, s := range list {
			out = append(out, s.Name)
		}
		return out
	}
	if got := names(List(false, gateway, netip.Addr{})); !slices.Equal(got, []string{Node, Pod}) {
		t.Error(got)
	}
	n := network{rate: map[string]float64{Gateway: 9, Egress: 3}}
	list := List(true, gateway, server)
	r := n.report(t, 8, list)
	if got := names(list); !slices.Equal(got, []string{Gateway, Egress}) || r.Loses != Egress || !strings.HasSuffix(r.Summary, "it keeps 0.333 [0.333, 0.333] of gateway") {
		t.Errorf("%v %+v", got, r)
	}
}

// Steps are in the order of looking, numbered without gaps, and name the offloads that are off.
func TestSteps(t *testing.T) {
	n := network{rate: map[string]float64{Node: 9, Pod: 8, Gateway: 8, Egress: 4}}
	r := n.report(t, 8, List(false, gateway, server))
	var topics []string
	for _, s := range r.Steps {
		topics = append(topics, s.Topic)
	}
	want := []string{"1 Source address", "2 Node to node", "3 Offloads of adapters", "4 Checksum of the tunnel", "5 Pod to node", "6 Gateway to server", "7 Pod to server", "8 Size of packets"}
	if !slices.Equal(topics, want) {
		t.Errorf("%q", topics)
	}
	if text := r.Steps[2].Text; !strings.HasPrefix(text, "off are pod's node eth0: tx-checksum-ip-generic.") {
		t.Error(text)
	}
	if text := r.Steps[6].Text; !strings.Contains(text, "0.500 [0.500, 0.500] of the slower of node and gateway. This is the one: look at edges") {
		t.Error(text)
	}
	var fields map[string]any
	data, err := json.Marshal(r)
	if err == nil {
		err = json.Unmarshal(data, &fields)
	}
	for _, name := range []string{"summary", "gatewayNode", "expected", "seen", "leaks", "stages", "loses", "steps", "notes", "problems"} {
		if fields[name] == nil {
			t.Errorf("no %s: %v %s", name, err, data)
		}
	}
}
