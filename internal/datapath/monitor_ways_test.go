package datapath

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/pcapng"
	"github.com/selvage/selvage/test/pkttest"
)

// seenWay is what a session was shown of packets on one way.
type seenWay struct {
	to   way
	list []PacketEvent
}

// Each encapsulation is shown as it leaves and as it comes, and a packet that does not fit as it came. tshark reads
// all of them. (TestMonitor of test/e2e/ops has large segments.)
func TestMonitorEveryTunnel(t *testing.T) {
	var all []seenWay
	list := ways()
	for _, to := range append(list[:len(tunnels):len(tunnels)], list[len(list)-1]) {
		t.Run(to.name, func(t *testing.T) { all = append(all, seenWay{to, shownOf(t, to)}) })
	}
	if !t.Failed() {
		tsharkReads(t, all)
	}
}

// shownOf checks what is shown of packets on a way.
func shownOf(t *testing.T, to way) []PacketEvent {
	t.Helper()
	w := to.world(t)
	s := w.watch(t, MonitorOptions{Drops: true, Forwarded: true, Originals: true, Leaving: true})
	frame, reply := pkttest.Frame(alice, bob, tcp4), pkttest.Frame(bob, alice, tcp4)
	tooBig := pkttest.Frame(alice, bob, sized("10.0.0.1", "10.0.0.2", to.mtu(0)+1))
	in := w.fromRemote(reply)
	sent := w.fromPort(t, "p0", frame)
	w.fromUnderlay(t, in)
	w.fromPort(t, "p0", tooBig)
	list := eventsOf(t, s)
	type shown struct {
		Point  MonitorPoint
		Reason string
		VNI    uint32
		Inner  int
		Bytes  string
	}
	var got []shown
	for _, e := range list {
		got = append(got, shown{e.Point, e.Reason, e.VNI, e.Inner, string(e.Bytes)})
		if e.Len != len(e.Bytes) || e.Segment != "blue" {
			t.Errorf("shown %+v", e)
		}
	}
	want := []shown{
		{Point: PointIngress, Bytes: string(frame)},
		{Point: PointEgress, Bytes: string(sent.out)},
		{Point: PointIngress, VNI: blueVNI, Inner: len(in) - len(reply), Bytes: string(in)},
		{Point: PointEgress, VNI: blueVNI, Bytes: string(reply)},
		{Point: PointIngress, Reason: "too-big", Bytes: string(tooBig)},
	}
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d: %+v", len(got), len(want), list)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("event %d is %+v, want %+v", i, got[i], want[i])
		}
	}
	if d := list[4].Decision; d.Remote != w.family.remotes[0] {
		t.Errorf("what does not fit was to go to %+v", d)
	}
	return list
}

// tsharkReads has it find the tunnel of each way, and no fault.
func tsharkReads(t *testing.T, all []seenWay) {
	t.Helper()
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed: nobody else reads the packets")
	}
	var capture bytes.Buffer
	out, err := pcapng.New(&capture, "test", []pcapng.Interface{{Name: "all", Snaplen: MostSnaplen}})
	must(t, err)
	for _, seen := range all {
		for _, e := range seen.list {
			must(t, out.Write(pcapng.Packet{Time: time.Unix(1, 0), Length: e.Len, Bytes: e.Bytes, ID: e.Packet}))
		}
	}
	file := filepath.Join(t.TempDir(), "all.pcapng")
	must(t, os.WriteFile(file, capture.Bytes(), 0o600))
	said, err := exec.Command(tshark, "-n", "-r", file, "-o", "ip.check_checksum:TRUE", "-T", "fields", "-E", "separator=;", "-E", "occurrence=f",
		"-e", "vxlan.vni", "-e", "geneve.vni", "-e", "gre.key", "-e", "ip.checksum.status", "-e", "_ws.malformed").Output()
	must(t, err)
	lines := strings.Split(strings.TrimSuffix(string(said), "\n"), "\n")
	for _, seen := range all {
		for i, e := range seen.list {
			f := strings.Split(lines[0], ";")
			lines = lines[1:]
			tunnelled := i == 1 || i == 2
			want := []string{"", "", ""}
			switch e := seen.to.tunnel.Encapsulation; {
			case tunnelled && e == overlay.NVGRE:
				f[2] = f[2][:min(len(f[2]), 8)] // less the FlowID
				want[2] = fmt.Sprintf("0x%06x", blueVNI)
			case tunnelled && e == overlay.Geneve:
				want[1] = fmt.Sprintf("0x%06x", blueVNI)
			case tunnelled:
				want[0] = fmt.Sprint(blueVNI)
			}
			if strings.Join(f[:3], ";") != strings.Join(want, ";") || f[3] == "0" || f[4] != "" {
				t.Errorf("%s, %s: tshark reads %q, want %q of\n%x", seen.to.name, e.Point, f, want, e.Bytes)
			}
		}
	}
}
