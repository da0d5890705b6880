package ops

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//
// The edge on hosta is killed while numbered datagrams cross. What a user asks at hosta then is answered from its pins.

// dead is a killed edge.
type dead struct {
	*harness.TwoHosts
	name string
}

// asks runs a command about it, in the network namespace of a host.
func (d *dead) asks(at *topo.Host, args ...string) (string, error) {
	argv := append([]string{"env", "SELVAGE_STATE_DIR=" + dut.StateDir(d.Topo), harness.Program}, args...)
	out, err := at.Output(d.Ctx, append(argv, "--edge", d.name)...)
	return string(out), err
}

// failing runs a command that prints and fails, and also says with which status.
func (d *dead) failing(args ...string) (string, error) {
	argv := []string{"env", "SELVAGE_STATE_DIR=" + dut.StateDir(d.Topo), "sh", "-c", `"$@" 2>&1; echo "exit status $?"`, "sh", harness.Program}
	out, err := d.A.Output(d.Ctx, append(argv, args...)...)
	return string(out), err
}

// note is the first line of each answer.
func (d *dead) note() string {
	return fmt.Sprintf("edge %s does not run; its data path forwards: read from its pins; start it again with `selvage edge -c %s`, or remove it with `selvage remove %s`\n",
		d.name, d.Edges["hosta"].Config, d.name)
}

// says wants an answer with a note on top, and these lines.
func (d *dead) says(command []string, lines ...string) {
	d.T.Helper()
	d.Once("the pins answer "+strings.Join(command, " "), func() error {
		out, err := d.asks(d.A, command...)
		if !strings.HasPrefix(out, d.note()) {
			err = errors.Join(err, fmt.Errorf("it begins %q, not %q", first(out), d.note()))
		}
		return missing(strings.Join(strings.Fields(out), " "), err, lines)
	})
}

func first(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// pinnedList is an answer as JSON; each entry says where it is from.
func pinnedList[T any](d *dead, command ...string) (list []T) {
	d.T.Helper()
	d.Once(strings.Join(command, " ")+" as JSON says that it is from pins", func() error {
		out, err := d.asks(d.A, append(command, "-o", "json")...)
		var from []struct {
			FromPins bool `json:"from_pins"`
		}
		err = errors.Join(err, json.Unmarshal([]byte(out), &from), json.Unmarshal([]byte(out), &list))
		for _, f := range from {
			if !f.FromPins {
				err = errors.Join(err, errors.New(out))
			}
		}
		if len(from) == 0 {
			err = errors.Join(err, errors.New("it is empty"))
		}
		return err
	})
	return list
}

func (d *dead) dropped(reason string) uint64 {
	d.T.Helper()
	for _, drop := range pinnedList[api.DropInfo](d, "drops") {
		if drop.Reason == reason {
			return drop.Packets
		}
	}
	return 0
}

// tagged sends frames with a tag from client, which the port does not take.
func (d *dead) tagged(count int) {
	d.T.Helper()
	frames, err := harness.OpenFrames(d.Client, topo.EndName, false)
	d.Must(err)
	defer frames.Close()
	for range count {
		d.Must(frames.Send(harness.RawFrame(harness.ClientMAC, harness.ServerMAC, 0x8100, 64)))
	}
}

func TestDeadEdgeIsRead(t *testing.T) {
	t.Parallel()
	n, streams := newStreams(t)
	config, name := n.Config("hosta"), n.Edges["hosta"].Name
	d := &dead{n, name}
	n.Edges["hosta"].Kill()
	n.GoOn(streams)

	n.Once("status says so, and fails", func() error {
		out, err := d.failing("status", "--edge", name)
		if !strings.HasPrefix(out, d.note()+"BROKEN: 1 error\n") || !strings.HasSuffix(out, "\nexit status 1\n") {
			err = errors.Join(err, errors.New(out))
		}
		return missing(strings.Join(strings.Fields(out), " "), err, []string{
			"Edge: " + name + ", does not run", "Data path: forwards, read from its pins in /sys/fs/bpf/selvage/" + name, "TEP: 192.0.2.1",
			"Ports: 1 of 1 up", "Remotes: 1 of 1 resolved", "FDB: 2 of", "Problems: error: the edge does not run", "lab 100 vxlan 4789 1 1",
		})
	})
	d.says([]string{"ports"}, "access p0 - lab up 1450", "DROPS access", "u0 underlay tcx")
	d.says([]string{"fdb"}, "lab "+harness.ClientMAC+" access - learned", "lab "+harness.ServerMAC+" - 192.0.2.2 learned")
	d.says([]string{"neighbours"}, "lab "+topo.ClientV4.String()+" "+harness.ClientMAC+" access - learned")
	d.says([]string{"teps"}, "192.0.2.2 resolved u0")
	d.says([]string{"flows"}, "lab access 192.0.2.2 udp", "fast")
	d.says([]string{"flows", "--stats"}, "hits")
	d.says([]string{"limits"}, "access", "macs")
	d.says([]string{"drops"}, "REASON PACKETS")

	before := pinnedList[api.PortInfo](d, "ports")
	n.GoOn(streams)
	after := pinnedList[api.PortInfo](d, "ports")
	if a, b := before[0], after[0]; b.RxPackets <= a.RxPackets || b.TxPackets <= a.TxPackets {
		t.Errorf("counters of %s stay: %d and %d packets, then %d and %d", a.Name, a.RxPackets, a.TxPackets, b.RxPackets, b.TxPackets)
	}
	d.tagged(3)
	n.Fact("drops go up", func() error {
		if got := d.dropped("vlan-tagged"); got != 3 {
			return fmt.Errorf("%d packets of 3", got)
		}
		return nil
	})
	d.says([]string{"drops"}, "vlan-tagged 3")
	d.says([]string{"drops", "--by", "port"}, "access vlan-tagged 3")
	d.elsewhere()
	d.among()

	n.Start(n.A, name, config)
	n.Fact("the next edge has taken over and answers", func() error {
		status, err := n.Ask("hosta").Status(n.Ctx)
		if err == nil && (!status.Adopted || status.Pins != "" || status.Dropped != 3) {
			err = fmt.Errorf("%+v", status)
		}
		return err
	})
	n.GoOn(streams)
	n.LostNothing(streams)
}

// elsewhere: another network namespace has other interfaces, and a state directory without the edge no names.
func (d *dead) elsewhere() {
	d.T.Helper()
	index, err := d.A.Index(topo.AccessName)
	d.Must(err)
	d.Once("interfaces have numbers in another network namespace", func() error {
		out, err := d.asks(d.B, "ports")
		return missing(out, err, []string{"it is of another network namespace", fmt.Sprintf("ifindex:%d", index)})
	})
	d.Once("VNIs and interfaces stand for names that are not known", func() error {
		out, err := d.A.Output(d.Ctx, "env", "SELVAGE_STATE_DIR="+d.T.TempDir(), harness.Program, "fdb", "--edge", d.name)
		return missing(strings.Join(strings.Fields(string(out)), " "), err, []string{"its configuration is not known (there is no revision in ", "vni:100 " + harness.ClientMAC + " interface:p0 - learned"})
	})
	d.Once("what needs a process says so", func() error {
		_, err := d.asks(d.A, "sessions")
		return missing(fmt.Sprint(err), nil, []string{"edge " + d.name + ": it does not run, and its pins do not answer this"})
	})
}

// among: status without a name has those that run too.
func (d *dead) among() {
	d.T.Helper()
	d.Once("status shows edges that run and this one", func() error {
		out, err := d.failing("status")
		return missing(out, err, []string{"Edge:           " + d.name + ", does not run", "Edge:           " + d.Edges["hostb"].Name + ", version", "\nexit status 1\n"})
	})
}
