package ops

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//
// What a user types at hosta while client and server talk, as tables and as JSON.

func TestCommands(t *testing.T) {
	t.Parallel()
	n := harness.NewTwoHosts(t, topo.TwoHostsOptions{})
	n.BuildRecorded(n.SelvageHalf(), n.SelvageHalf())
	n.Resolved("hosta")
	n.Fact("client pings server", func() error { return harness.Ping(n.Ctx, n.Client, topo.ServerV4) })
	n.StopCaptures()
	n.Once("TCP crosses", func() error { return harness.Transfer(n.Directions(4)[0], 1_000_000) })
	for _, c := range []struct {
		name string
		does func(*harness.TwoHosts)
	}{
		{"Status", commandStatus},
		{"Ports", commandPorts},
		{"TEPs", commandTEPs},
		{"FDB", commandFDB},
		{"Neighbors", commandNeighbors},
		{"Routes", commandRoutes},
		{"Trace", commandTrace},
		{"Doctor", doctorSelvage},
		{"Flows", commandFlows},
		{"Drops", commandDrops},
	} {
		t.Run(c.name, func(t *testing.T) { c.does(n.Sub(t)) })
	}
}

// says runs a command about the edge on hosta.
func says(n *harness.TwoHosts, args ...string) (string, error) {
	argv := append([]string{harness.Program}, args...)
	out, err := n.A.Output(n.Ctx, append(argv, "--edge", n.Edges["hosta"].Name)...)
	return string(out), err
}

// table is a fact: a command prints a header and a line with these words.
func table(n *harness.TwoHosts, command []string, header string, words ...string) {
	n.T.Helper()
	n.Fact(strings.Join(command, " ")+" prints its table", func() error {
		out, err := says(n, command...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if err == nil && strings.Join(strings.Fields(lines[0]), " ") != header {
			err = fmt.Errorf("the header is %q", lines[0])
		}
		for _, line := range lines[1:] {
			fields := " " + strings.Join(strings.Fields(line), " ") + " "
			if err == nil && containsAll(fields, words) {
				return nil
			}
		}
		return errors.Join(fmt.Errorf("no line with %q in\n%s", words, out), err)
	})
}

func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, " "+w+" ") {
			return false
		}
	}
	return true
}

// document is a fact: a command prints JSON that is as check wants it.
func document[T any](n *harness.TwoHosts, command []string, check func(T) bool) {
	n.T.Helper()
	harness.DocumentOf(n.Network, func(args ...string) (string, error) { return says(n, args...) }, command, check)
}

func commandStatus(n *harness.TwoHosts) {
	n.T.Helper()
	name := n.Edges["hosta"].Name
	n.Fact("status in words", func() error {
		out, err := says(n, "status")
		for _, line := range []string{
			"Edge: " + name, "TEP: 192.0.2.1", "Ports: 1 of 1 up", "Remotes: 1 of 1 resolved", "Problems: none",
			"Data path: loaded by this process", "lab 100 vxlan 4789 1 1", "Dropped: 0 packets",
		} {
			if !strings.Contains(strings.Join(strings.Fields(out), " "), line) {
				err = errors.Join(err, fmt.Errorf("no %q in\n%s", line, out))
			}
		}
		return err
	})
	document(n, []string{"status"}, func(s api.Status) bool {
		return s.Name == name && s.PID == n.Edges["hosta"].Command.PID() && s.TEP == n.TEPA && !s.Adopted &&
			s.Ports == (api.Tally{Up: 1, Total: 1}) && s.TEPs == (api.Tally{Up: 1, Total: 1}) && s.FlowCache &&
			s.FDB.Used == 2 && s.Flows.Used > 2 && s.Hits > s.Misses && s.Misses > 0 && s.Dropped == 0 &&
			len(s.Segments) == 1 && s.Segments[0].VNI == 100 && len(s.Problems) == 0
	})
}

func commandPorts(n *harness.TwoHosts) {
	n.T.Helper()
	index, err := n.A.Index(topo.AccessName)
	n.Must(err)
	table(n, []string{"ports", "-o", "wide"}, "NAME INTERFACE INDEX VLAN SEGMENT STATE HOOK DELIVER MTU RX-PACKETS RX-BYTES TX-PACKETS TX-BYTES DROPS MACS NEIGHBOURS CONNECTIONS STORM",
		"access p0", "lab up tcx peer 1450")
	document(n, []string{"ports"}, func(ports []api.PortInfo) bool {
		p := ports[0]
		// Of 1 MB the headers come on top, and acknowledgements come back.
		return len(ports) == 1 && p.Ifindex == index && p.RxBytes > 1_000_000 && p.RxBytes < 1_200_000 &&
			p.RxPackets > 700 && p.TxPackets > 10 && p.TxBytes < p.RxBytes && p.Drops == 0
	})
}

func commandTEPs(n *harness.TwoHosts) {
	n.T.Helper()
	table(n, []string{"teps", "-o", "wide"}, "ADDRESS NAME STATE INTERFACE NEXT-HOP NEXT-MAC MTU PATH-MTU PROBED INNER-MTU RX-PACKETS RX-BYTES TX-PACKETS TX-BYTES SEGMENTS",
		"192.0.2.2 - resolved u0 192.0.2.2 02:00:00:00:02:02 1500 1500 confirmed 1450", "lab")
	document(n, []string{"teps"}, func(teps []api.TEPInfo) bool {
		tep := teps[0]
		return len(teps) == 1 && tep.Address == n.TEPB && tep.State == "resolved" && tep.InnerMTU == 1450 &&
			tep.TxPackets > 700 && tep.TxBytes > 1_000_000 && tep.RxPackets > 10 && tep.RxBytes < tep.TxBytes
	})
}

func commandFDB(n *harness.TwoHosts) {
	n.T.Helper()
	table(n, []string{"fdb"}, "SEGMENT MAC PORT REMOTE TYPE AGE MOVES", "lab "+harness.ClientMAC+" access - learned")
	table(n, []string{"fdb"}, "SEGMENT MAC PORT REMOTE TYPE AGE MOVES", "lab "+harness.ServerMAC+" - 192.0.2.2 learned")
	document(n, []string{"fdb", "--segment", "lab"}, func(fdb []api.FDBEntry) bool {
		return len(fdb) == 2 && fdb[0].MAC.String() == harness.ClientMAC && fdb[0].Port == "access" && fdb[0].Age < 30 &&
			fdb[1].MAC.String() == harness.ServerMAC && fdb[1].Remote == n.TEPB
	})
	document(n, []string{"fdb", "--static"}, func(fdb []api.FDBEntry) bool { return fdb != nil && len(fdb) == 0 })
}

func commandNeighbors(n *harness.TwoHosts) {
	n.T.Helper()
	table(n, []string{"neighbors"}, "SEGMENT ADDRESS MAC PORT REMOTE TYPE AGE", "lab 10.0.0.1 "+harness.ClientMAC+" access - learned")
	table(n, []string{"neighbours"}, "SEGMENT ADDRESS MAC PORT REMOTE TYPE AGE", "lab 10.0.0.2 "+harness.ServerMAC+" - 192.0.2.2 learned")
	document(n, []string{"neighbors", "--segment", "lab"}, func(list []api.NeighbourInfo) bool {
		return len(list) > 1 && list[0].Address == topo.ClientV4 && list[0].MAC.String() == harness.ClientMAC && list[0].Age < 30
	})
}

// Without a router there are none.
func commandRoutes(n *harness.TwoHosts) {
	n.T.Helper()
	document(n, []string{"routes"}, func(list []api.RouteInfo) bool { return list != nil && len(list) == 0 })
}

// Tracing changes nothing: no flow, no counter.
func commandTrace(n *harness.TwoHosts) {
	n.T.Helper()
	const packet = "tcp 10.0.0.1:1000 > 10.0.0.2:80 syn"
	n.Fact("trace in words", func() error {
		out, err := says(n, "trace", "--port", "access", packet)
		for _, line := range []string{
			"in: " + harness.ClientMAC + " > " + harness.ServerMAC + ": " + packet, "verdict: sent", "IPv4 192.0.2.1 > 192.0.2.2", "VXLAN VNI 100",
			"inside: " + harness.ClientMAC + " > " + harness.ServerMAC + ": " + packet,
		} {
			if !strings.Contains(out, line) {
				err = errors.Join(err, fmt.Errorf("no %q in\n%s", line, out))
			}
		}
		return err
	})
	document(n, []string{"trace", "--remote", "192.0.2.2", "--segment", "lab", "icmp 10.0.0.2 > 10.0.0.1"}, func(t api.TraceInfo) bool {
		return t.Verdict == "sent" && len(t.Steps) > 3 && len(t.Headers) == 1 && strings.Contains(t.Headers[0], harness.ServerMAC+" > "+harness.ClientMAC)
	})
	// Other flows may come meanwhile: kernels ask for each other when they please.
	n.Once("tracing left no flow behind", func() error {
		flows, err := says(n, "flows", "-o", "json")
		if strings.Contains(flows, `"src_port": 1000,`) {
			err = errors.Join(err, errors.New(flows))
		}
		return err
	})
}

func commandFlows(n *harness.TwoHosts) {
	n.T.Helper()
	// A destination that nobody has heard of keeps a flow off the fast path.
	n.Once("a frame for an unknown destination is sent", func() error {
		out, err := harness.OpenFrames(n.Client, topo.EndName, false)
		if err != nil {
			return err
		}
		defer out.Close()
		return out.Send(harness.Marked(harness.EndMAC(1), harness.EndMAC(0x99), "unknown"))
	})
	header := "SEGMENT IN OUT PROTO SOURCE DESTINATION PATH PACKETS BYTES IDLE WHY"
	table(n, []string{"flows", "-o", "wide"}, header, "lab access 192.0.2.2 tcp", "fast")
	table(n, []string{"flows", "-o", "wide"}, header, "lab 192.0.2.2 access icmp 10.0.0.2 10.0.0.1 fast")
	table(n, []string{"flows", "--slow", "-o", "wide"}, header, "lab access flood", harness.ClientMAC+" 02:00:00:00:00:99 slow", "destination MAC not learned, flooded")
	document(n, []string{"flows"}, func(flows []api.FlowInfo) bool {
		f := flows[0] // the busiest
		return f.Proto == "tcp" && f.In == "access" && f.Src == topo.ClientV4 && f.Dst == topo.ServerV4 && f.FastPath && f.Why == "" &&
			f.Bytes > 1_000_000 && f.Packets > 700 && f.Idle < 30
	})
	// ARP and neighbour discovery are looked into each time, too.
	document(n, []string{"flows", "--slow"}, func(flows []api.FlowInfo) bool {
		unknown := 0
		for _, f := range flows {
			if f.FastPath || f.Why == "" {
				return false
			}
			if f.DstMAC.String() == "02:00:00:00:00:99" && f.Packets == 1 {
				unknown++
			}
		}
		return unknown == 1
	})
}

func commandDrops(n *harness.TwoHosts) {
	n.T.Helper()
	n.Once("a tagged frame is sent", func() error {
		out, err := harness.OpenFrames(n.Client, topo.EndName, false)
		if err != nil {
			return err
		}
		defer out.Close()
		return out.Send(harness.RawFrame(harness.ClientMAC, harness.ServerMAC, 0x8100, 100))
	})
	table(n, []string{"drops"}, "REASON PACKETS BYTES DESCRIPTION", "vlan-tagged 1", "802.1Q")
	table(n, []string{"drops", "--all"}, "REASON PACKETS BYTES DESCRIPTION", "unknown-vni 0 0B")
	document(n, []string{"drops"}, func(drops []api.DropInfo) bool {
		for _, d := range drops {
			if d.Description == "" || (d.Packets > 0) != (d.Reason == "vlan-tagged") {
				return false
			}
		}
		return len(drops) > 10
	})
}
