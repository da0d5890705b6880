package ops

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//
// What an operator at hosta sees of packets that are dropped and forwarded there. hosta has a guard and a
// firewall at its port.

const monitorPolicy = `  firewall:
    default: allow
    sections:
    - name: shop
      rules:
      - {name: no-telnet, action: reject, services: ["tcp/23"]}
`

// watched is monitor or capture, which runs.
type watched struct {
	n       *harness.TwoHosts
	command *topo.Command
	mu      sync.Mutex
	out     bytes.Buffer
}

// Write takes what the command prints.
func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

func (w *watched) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.String()
}

// lines are what monitor -o json printed.
func (w *watched) lines() (packets []api.PacketInfo, counts api.MonitorCounts, err error) {
	for line := range strings.Lines(w.text()) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		var l api.MonitorLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			return nil, counts, fmt.Errorf("%w in %s", err, line)
		}
		if l.Packet != nil {
			packets = append(packets, *l.Packet)
		}
		if l.Counts != nil {
			counts = *l.Counts
		}
	}
	return packets, counts, nil
}

// watch starts a command, and waits until it watches.
func watch(n *harness.TwoHosts, args ...string) *watched {
	n.T.Helper()
	w := &watched{n: n}
	argv := append([]string{harness.Program}, args...)
	w.command = n.A.Command(context.WithoutCancel(n.Ctx), append(argv, "--edge", n.Edges["hosta"].Name)...)
	w.command.Stdout = w
	n.Must(w.command.Start())
	n.T.Cleanup(w.command.Kill)
	return w
}

// watchJSON is watch of monitor -o json; it returns when the first counts came.
func watchJSON(n *harness.TwoHosts, args ...string) *watched {
	n.T.Helper()
	w := watch(n, append([]string{"monitor", "-o", "json"}, args...)...)
	n.Fact("monitor answers", func() error {
		if !strings.Contains(w.text(), `"counts"`) {
			if !w.running() {
				return w.command.Wait()
			}
			return errors.New("no counts yet")
		}
		return nil
	})
	return w
}

// stop ends it as SIGTERM and Ctrl-C do, and waits for its last words.
func (w *watched) stop() {
	w.n.T.Helper()
	w.n.Must(w.command.Stop(w.n.Ctx))
	w.n.Must(w.command.Wait())
}

func TestMonitor(t *testing.T) {
	t.Parallel()
	n := harness.NewTwoHosts(t, topo.TwoHostsOptions{})
	n.BuildRecorded(n.SelvageHalf(), n.SelvageHalf())
	n.Resolved("hosta")
	n.StopCaptures()
	n.Rewrite("hosta", "      interface: p0\n", `      interface: p0`+"\n"+`      allowed: {macs: ["`+harness.ClientMAC+`"]}`+"\n", "  ports:\n", monitorPolicy+"  ports:\n")
	n.Fact("client pings server", func() error { return harness.Ping(n.Ctx, n.Client, topo.ServerV4) })
	for _, c := range []struct {
		name string
		does func(*harness.TwoHosts)
	}{{"Kinds", monitorKinds}, {"Killed", monitorKilled}, {"Capture", monitorCapture}, {"Pipe", monitorPipe}} {
		t.Run(c.name, func(t *testing.T) { c.does(n.Sub(t)) })
	}
}

// guestFrames sends frames at client.
func guestFrames(n *harness.TwoHosts) *harness.Frames {
	n.T.Helper()
	f, err := harness.OpenFrames(n.Client, topo.EndName, false)
	n.Must(err)
	n.T.Cleanup(f.Close)
	return f
}

// monitorKinds drops packets for several reasons, and two monitors see those that they want.
func monitorKinds(n *harness.TwoHosts) {
	n.T.Helper()
	all, few := watchJSON(n), watchJSON(n, "--reason", "spoofed-mac", "udp", "dst", "10.0.0.2", "dport", "53")
	frames := guestFrames(n)
	spoofed := "02:00:00:00:00:99"
	n.Must(frames.Send(pkttest.Frame(spoofed, harness.ServerMAC, "udp 10.0.0.1:1000 > 10.0.0.2:53 20")))
	n.Must(frames.Send(pkttest.Frame(spoofed, harness.ServerMAC, "udp 10.0.0.1:1000 > 10.0.0.2:54 20")))
	n.Must(frames.Send(pkttest.Frame(harness.ClientMAC, harness.ServerMAC, "tcp 10.0.0.1:1000 > 10.0.0.2:23 syn")))
	stranger := pkttest.Outer{
		SrcMAC: "02:00:00:00:02:02", DstMAC: "02:00:00:00:02:01", VNI: 100,
		Src: netip.MustParseAddr("192.0.2.77"), Dst: n.TEPA,
	}
	under, err := harness.OpenFrames(n.B, topo.UnderlayName, false)
	n.Must(err)
	defer under.Close()
	n.Must(under.Send(stranger.Wrap(pkttest.Frame(harness.ServerMAC, harness.ClientMAC, "udp 10.0.0.2:1 > 10.0.0.1:2 20"))))
	type kind struct{ Reason, Port, Outer, Rule, Segment string }
	want := []kind{
		{"spoofed-mac", "access", "", "", "lab"}, {"spoofed-mac", "access", "", "", "lab"},
		{"rejected", "access", "", "shop/no-telnet", "lab"}, {"unknown-remote", "", "192.0.2.77", "", "lab"},
	}
	n.Fact("monitor shows each drop with its reason, port and rule", func() error {
		packets, _, err := all.lines()
		var got []kind
		for _, p := range packets {
			got = append(got, kind{p.Reason, p.Port, p.Outer, p.Rule, p.Segment})
		}
		for _, k := range want {
			if !slices.Contains(got, k) {
				return errors.Join(err, fmt.Errorf("no %+v in %+v", k, got))
			}
		}
		return err
	})
	all.stop()
	few.stop()
	packets, counts, err := few.lines()
	n.Must(err)
	if len(packets) != 1 || counts.Matched != 1 || !counts.Final || !strings.Contains(strings.Join(packets[0].Headers, "\n"), "udp 10.0.0.1:1000 > 10.0.0.2:53") {
		n.Fail("a filter chooses one packet", fmt.Errorf("%+v, counts %+v", packets, counts))
	}
	packets, counts, err = all.lines()
	n.Must(err)
	tunnel := slices.IndexFunc(packets, func(p api.PacketInfo) bool { return p.Reason == "unknown-remote" })
	if text := strings.Join(packets[tunnel].Headers, "\n"); !strings.Contains(text, "VXLAN VNI 100") || !strings.Contains(text, "inside: ") {
		n.Fail("a tunnel packet is told inside and out", errors.New(text))
	}
	if counts.Shown+counts.NotShown != counts.Matched {
		n.Fail("shown and not shown are all", fmt.Errorf("%+v", counts))
	}
}

// monitorKilled leaves nothing behind a client that is killed: as many as may be can begin again.
func monitorKilled(n *harness.TwoHosts) {
	n.T.Helper()
	var all []*watched
	for range 4 {
		all = append(all, watchJSON(n))
	}
	n.Once("a fifth monitor is refused", func() error {
		out, err := n.A.Command(n.Ctx, harness.Program, "monitor", "--edge", n.Edges["hosta"].Name).Output()
		if err == nil || !strings.Contains(err.Error()+string(out), "4 sessions watch packets already") {
			return fmt.Errorf("%w, %s", err, out)
		}
		return nil
	})
	for _, w := range all {
		w.command.Kill()
	}
	for range 4 {
		n.Fact("there is a place again", func() error {
			out, err := n.A.Output(n.Ctx, harness.Program, "monitor", "--edge", n.Edges["hosta"].Name, "--duration", "10ms")
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
	}
}

// monitorCapture has tshark read what was captured at all points.
func monitorCapture(n *harness.TwoHosts) {
	n.T.Helper()
	file := filepath.Join(n.T.TempDir(), "monitor.pcapng")
	w := watch(n, "capture", "-w", file, "-c", "200", "icmp")
	n.Fact("the capture begins", func() error {
		info, err := os.Stat(file)
		if !w.running() {
			return w.command.Wait()
		}
		if err == nil && info.Size() == 0 {
			err = errors.New("it is empty")
		}
		if err == nil && info.Mode().Perm() != 0o600 {
			err = fmt.Errorf("its mode is %o", info.Mode().Perm())
		}
		return err
	})
	for w.running() {
		if err := harness.Ping(n.Ctx, n.Client, topo.ServerV4); err != nil {
			n.Must(err)
		}
	}
	n.Must(w.command.Wait())
	for _, c := range []struct {
		filter string
		least  int
	}{
		{`frame.interface_name == "ingress" && icmp.type == 8 && !vxlan && frame.packet_flags_direction == 1`, 1},
		{`frame.interface_name == "egress" && vxlan.vni == 100 && icmp.type == 8 && frame.packet_flags_direction == 2`, 1},
		{`frame.interface_name == "ingress" && vxlan.vni == 100 && icmp.type == 0`, 1},
		{`frame.interface_name == "decap" && !vxlan && icmp.type == 0`, 1},
		{`frame.interface_name == "egress" && !vxlan && icmp.type == 0 && frame.verdict.ebpf_tc == 7`, 1},
		{`frame.comment contains "port access" && frame.comment contains "segment lab" && frame.comment contains "encapsulate to remote"`, 1},
	} {
		n.Sees(file, c.least, c.filter)
	}
	n.Once("tshark finds no fault, and times are of now", func() error {
		lines, err := n.Tshark(file, "_ws.malformed || icmp.checksum.status == bad || ip.checksum.status == bad || frame.time_epoch < "+
			fmt.Sprint(time.Now().Add(-time.Minute).Unix())+" || frame.time_epoch > "+fmt.Sprint(time.Now().Add(time.Minute).Unix()))
		if err == nil && len(lines) > 0 {
			err = errors.New(strings.Join(lines, "\n"))
		}
		return err
	})
}

// monitorPipe has tshark read a capture that goes on.
func monitorPipe(n *harness.TwoHosts) {
	n.T.Helper()
	command := n.A.Command(n.Ctx, "sh", "-c", harness.Program+" capture -w - -c 1 --edge "+n.Edges["hosta"].Name+" icmp | tshark -r - -Y icmp")
	var out bytes.Buffer
	command.Stdout = &out
	n.Must(command.Start())
	n.T.Cleanup(command.Kill)
	for ended := false; !ended; {
		n.Must(harness.Ping(n.Ctx, n.Client, topo.ServerV4))
		select {
		case <-command.Done():
			ended = true
		default:
		}
	}
	if err := command.Wait(); err != nil || !strings.Contains(out.String(), "Echo (ping)") {
		n.Fail("tshark reads a pipe", fmt.Errorf("%w, it says %q", err, out.String()))
	}
}

// running reports whether it has not ended.
func (w *watched) running() bool {
	select {
	case <-w.command.Done():
		return false
	default:
		return true
	}
}
