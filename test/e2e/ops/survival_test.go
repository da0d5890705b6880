package ops

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//
// The edge on hosta is killed, restarted and stopped while numbered datagrams cross it
// both ways; each that is lost is named.

// newStreams is two edges that work, with streams both ways through them.
func newStreams(t *testing.T) (n *harness.TwoHosts, streams []*harness.Stream) {
	t.Helper()
	n = harness.NewTwoHosts(t, topo.TwoHostsOptions{})
	return n, streamsOver(n, false)
}

// streamsOver starts both edges, with checksums outside or not, and streams both ways through them.
func streamsOver(n *harness.TwoHosts, checksum bool) (streams []*harness.Stream) {
	n.T.Helper()
	half := n.SelvageHalf()
	half.UDPChecksum = checksum
	n.BuildRecorded(half, half)
	for _, h := range []*topo.Host{n.A, n.B} {
		n.Resolved(h.Name)
	}
	for _, d := range n.Directions(4) {
		streams = append(streams, n.StartStream(d))
	}
	n.GoOn(streams)
	return streams
}

// TestRestarts has the edges end in every way that there is, one after the other.
func TestRestarts(t *testing.T) {
	t.Parallel()
	n := harness.NewTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: 6})
	before, err := interfaces(n, n.A)
	n.Must(err)
	streams := streamsOver(n, true)
	for _, step := range []struct {
		name string
		do   func(*harness.TwoHosts, []*harness.Stream)
	}{{"Killed", killed}, {"KilledWhileTransferring", killedWhileTransferring}, {"Stopped", stopped}} {
		if !t.Run(step.name, func(t *testing.T) { step.do(n.Sub(t), streams) }) {
			return
		}
	}
	n.LostNothing(streams)
	n.NoDrops()
	t.Run("Removed", func(t *testing.T) { removed(n.Sub(t), before) })
}

// killed: the data path of an edge that is killed forwards, also for who is new, and the next one takes it over. A second
// of the same name is refused.
func killed(n *harness.TwoHosts, streams []*harness.Stream) {
	config, name := n.Config("hosta"), n.Edges["hosta"].Name
	n.Once("a second edge of the same name is refused", func() error {
		_, err := n.A.Output(n.Ctx, harness.Program, "edge", "-c", n.Edges["hosta"].Config)
		if err == nil || !strings.Contains(err.Error(), "already running") {
			return fmt.Errorf("%w, want a refusal", err)
		}
		return nil
	})
	for range 2 {
		n.Edges["hosta"].Kill()
		n.GoOn(streams)
		n.Once("a new client resolves and pings", func() error {
			if _, err := n.Client.Output(n.Ctx, "ip", "neigh", "flush", "all"); err != nil {
				return err
			}
			return harness.Ping(n.Ctx, n.Client, topo.ServerV4)
		})
		n.Start(n.A, name, config)
		n.Adopted("hosta")
		n.GoOn(streams)
	}
}

// killedWhileTransferring: a TCP transfer does not notice it either.
func killedWhileTransferring(n *harness.TwoHosts, _ []*harness.Stream) {
	config, name := n.Config("hosta"), n.Edges["hosta"].Name
	reached, restarted := make(chan struct{}), make(chan struct{})
	reach := sync.OnceFunc(func() { close(reached) })
	data := slices.Concat(harness.Content, harness.Content, harness.Content)
	transferred := make(chan error, 1)
	go func() {
		transferred <- harness.TransferBytes(n.Directions(4)[0], data, func(received int) {
			if received > len(data)/3 {
				reach()
			}
			if received > 2*len(data)/3 { // until then it goes on without an edge
				<-restarted
			}
		})
	}()
	<-reached
	n.Edges["hosta"].Kill()
	e := n.Start(n.A, name, config)
	close(restarted)
	n.Once("bytes intact over kill and restart of "+e.Name, func() error { return <-transferred })
}

// stopped: an edge that is stopped leaves a data path that forwards, where it is told to, and the next one takes it over.
func stopped(n *harness.TwoHosts, streams []*harness.Stream) {
	config, name := n.Config("hosta"), n.Edges["hosta"].Name
	n.Edges["hosta"].Kill()
	e, err := dut.StartEdge(n.Ctx, n.A, harness.Program, name, config, "SELVAGE_REMOVE_AT_EXIT=false")
	n.Must(err)
	n.Started(n.A, e)
	n.Once("an edge that runs is not removed", func() error {
		_, err := n.A.Output(n.Ctx, harness.Program, "remove", name)
		if err == nil || !strings.Contains(err.Error(), "already running as process "+strconv.Itoa(e.Command.PID())+": stop it first") {
			return fmt.Errorf("%w, want a refusal with the process", err)
		}
		return nil
	})
	n.Must(e.Stop(n.Ctx))
	n.GoOn(streams)
	n.Once("the programs are where they were", func() error { return programs(n.A, 1) })
	n.Start(n.A, name, config)
	n.GoOn(streams)
}

// removed: selvage remove takes the data path of an edge away, and so does an edge that is stopped otherwise. Both leave nothing.
func removed(n *harness.TwoHosts, before string) {
	config, name := n.Config("hosta"), n.Edges["hosta"].Name
	n.Edges["hosta"].Kill()
	n.Once("not from another network namespace", func() error {
		_, err := n.B.Output(n.Ctx, harness.Program, "remove", name)
		if err == nil || !strings.Contains(err.Error(), "of another network namespace") {
			return fmt.Errorf("%w, want a refusal", err)
		}
		return programs(n.A, 1)
	})
	n.Once("selvage remove says what it did", func() error {
		out, err := n.A.Output(n.Ctx, harness.Program, "remove", name)
		return missing(string(out), err, []string{name + ": detached 3 programs\n" + name + ": removed the tables\n" + name + ": undid the changes of the host\n"})
	})
	leftNothing(n, name, before)
	e := n.Start(n.A, name, config)
	n.Once("programs sit on port and underlay", func() error { return programs(n.A, 1) })
	n.Must(e.Stop(n.Ctx))
	leftNothing(n, name, before)
}

// leftNothing is the facts that nothing of an edge is on hosta.
func leftNothing(n *harness.TwoHosts, name, before string) {
	n.T.Helper()
	n.Once("no program sits on port or underlay", func() error { return programs(n.A, 0) })
	n.Once("no pin, socket, lock or record is left", func() error {
		return harness.Nothing("/sys/fs/bpf/selvage/"+name, "/run/selvage/"+name+"*")
	})
	n.Once("interfaces are as they were", func() error {
		after, err := interfaces(n, n.A)
		if err == nil && before != after {
			err = fmt.Errorf("%s\nwere %s", after, before)
		}
		return err
	})
	n.Once("no neighbour is kept", func() error {
		out, err := n.A.Output(n.Ctx, "ip", "neigh")
		if err == nil && strings.Contains(string(out), "managed") {
			err = errors.New(string(out))
		}
		return err
	})
}

// programs wants so many programs at the edge's hooks, one each.
func programs(h *topo.Host, want int) error {
	for _, name := range []string{topo.AccessName, topo.UnderlayName} {
		index, err := h.Index(name)
		if err != nil {
			return err
		}
		err = h.Do(func() error {
			result, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: ebpf.AttachTCXIngress})
			if err == nil && len(result.Programs) != want {
				err = fmt.Errorf("%s has %d programs", name, len(result.Programs))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func interfaces(n *harness.TwoHosts, h *topo.Host) (string, error) {
	out, err := h.Output(n.Ctx, "ip", "-o", "link")
	return string(out), err
}
