package ops

import (
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
	t.Run("Doctor", func(t *testing.T) { doctorSelvage(n.Sub(t)) }) // before anything is dropped
	frames, err := harness.OpenFrames(n.Client, topo.EndName, false)
	n.Must(err)
	defer frames.Close()
	// A destination that nobody has heard of keeps a flow off the fast path; the port takes no tags.
	n.Must(frames.Send(harness.Marked(harness.EndMAC(1), harness.EndMAC(0x99), "unknown")))
	n.Must(frames.Send(harness.RawFrame(harness.ClientMAC, harness.ServerMAC, 0x8100, 100)))
	const packet = "tcp 10.0.0.1:1000 > 10.0.0.2:80 syn"
	for _, c := range []struct {
		command []string
		words   []string // that it prints, with one space between words
	}{
		{[]string{"status"}, []string{"Edge: " + n.Edges["hosta"].Name, "TEP: 192.0.2.1", "Ports: 1 of 1 up", "Remotes: 1 of 1 resolved", "Problems: none", "lab 100 vxlan 4789 1 1"}},
		{[]string{"ports", "-o", "wide"}, []string{"NAME INTERFACE INDEX VLAN SEGMENT STATE HOOK DELIVER MTU", "access p0 ", "lab up tcx peer 1450"}},
		{[]string{"teps", "-o", "wide"}, []string{"ADDRESS NAME STATE INTERFACE NEXT-HOP NEXT-MAC MTU PATH-MTU", "192.0.2.2 - resolved u0 192.0.2.2 02:00:00:00:02:02 1500 1500 confirmed 1450"}},
		{[]string{"fdb"}, []string{"SEGMENT MAC PORT REMOTE TYPE AGE MOVES", "lab " + harness.ClientMAC + " access - learned", "lab " + harness.ServerMAC + " - 192.0.2.2 learned"}},
		{[]string{"neighbours"}, []string{"SEGMENT ADDRESS MAC PORT REMOTE TYPE AGE", "lab 10.0.0.1 " + harness.ClientMAC + " access - learned"}},
		{[]string{"trace", "--port", "access", packet}, []string{"verdict: sent", "IPv4 192.0.2.1 > 192.0.2.2", "VXLAN VNI 100", "inside: " + harness.ClientMAC + " > " + harness.ServerMAC + ": " + packet}},
		{[]string{"flows", "-o", "wide"}, []string{"SEGMENT IN OUT PROTO SOURCE DESTINATION PATH PACKETS BYTES IDLE WHY", "lab 192.0.2.2 access icmp 10.0.0.2 10.0.0.1 fast"}},
		{[]string{"flows", "--slow", "-o", "wide"}, []string{"02:00:00:00:00:99 slow", "destination MAC not learned, flooded"}},
		{[]string{"drops"}, []string{"REASON PACKETS BYTES DESCRIPTION", "vlan-tagged 1 ", "802.1Q"}},
	} {
		n.Fact(strings.Join(c.command, " ")+" prints", func() error {
			out, err := says(n, c.command...)
			return missing(strings.Join(strings.Fields(out), " "), err, c.words)
		})
	}
	documents(n)
}

// says runs a command about the edge on hosta.
func says(n *harness.TwoHosts, args ...string) (string, error) {
	argv := append([]string{harness.Program}, args...)
	out, err := n.A.Output(n.Ctx, append(argv, "--edge", n.Edges["hosta"].Name)...)
	return string(out), err
}

// document is a fact: a command prints JSON that is as check wants it.
func document[T any](n *harness.TwoHosts, command []string, check func(T) bool) {
	n.T.Helper()
	harness.DocumentOf(n.Network, func(args ...string) (string, error) { return says(n, args...) }, command, check)
}

// documents are what commands print as JSON.
func documents(n *harness.TwoHosts) {
	n.T.Helper()
	document(n, []string{"status"}, func(s api.Status) bool {
		return s.PID == n.Edges["hosta"].Command.PID() && s.TEP == n.TEPA && !s.Adopted && s.Ports == (api.Tally{Up: 1, Total: 1}) &&
			s.FDB.Used == 2 && s.Hits > s.Misses && s.Misses > 0 && s.Dropped == 1 && s.Segments[0].VNI == 100 && len(s.Problems) == 0
	})
	document(n, []string{"ports"}, func(ports []api.PortInfo) bool {
		p := ports[0] // of 1 MB the headers come on top, and acknowledgements come back
		return len(ports) == 1 && p.RxBytes > 1_000_000 && p.RxBytes < 1_200_000 && p.TxPackets > 10 && p.TxBytes < p.RxBytes
	})
	document(n, []string{"teps"}, func(teps []api.TEPInfo) bool {
		tep := teps[0]
		return len(teps) == 1 && tep.Address == n.TEPB && tep.InnerMTU == 1450 && tep.TxBytes > 1_000_000 && tep.RxPackets > 10 && tep.RxBytes < tep.TxBytes
	})
	document(n, []string{"fdb", "--segment", "lab"}, func(fdb []api.FDBEntry) bool {
		return len(fdb) == 2 && fdb[0].Port == "access" && fdb[1].MAC.String() == harness.ServerMAC && fdb[1].Remote == n.TEPB
	})
	document(n, []string{"neighbors", "--segment", "lab"}, func(list []api.NeighbourInfo) bool { return len(list) > 1 && list[0].Address == topo.ClientV4 })
	document(n, []string{"routes"}, func(list []api.RouteInfo) bool { return list != nil && len(list) == 0 }) // without a router
	document(n, []string{"trace", "--remote", "192.0.2.2", "--segment", "lab", "icmp 10.0.0.2 > 10.0.0.1"}, func(t api.TraceInfo) bool { return t.Verdict == "sent" && len(t.Headers) == 1 })
	document(n, []string{"flows"}, func(flows []api.FlowInfo) bool {
		f := flows[0] // the busiest
		return f.Proto == "tcp" && f.In == "access" && f.Src == topo.ClientV4 && f.FastPath && f.Bytes > 1_000_000
	})
	document(n, []string{"drops"}, func(drops []api.DropInfo) bool { return len(drops) > 10 })
}
