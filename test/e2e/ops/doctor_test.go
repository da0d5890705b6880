package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/doctor"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//	eth0      p0    u0                     u0    p0      eth0
//
// The doctor is asked at hosta, which is healthy first and then has faults
// planted. Its own commands must cure them.

// consult is a run of selvage doctor -o json on a host.
func consult(ctx context.Context, h *topo.Host, env []string, args ...string) (doctor.Report, error) {
	var r doctor.Report
	c := h.Command(ctx, append([]string{harness.Program, "doctor", "-o", "json"}, args...)...)
	c.Env = env
	out, err := c.Output()
	if err != nil {
		return r, err
	}
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	decoder.DisallowUnknownFields()
	return r, decoder.Decode(&r)
}

// ills are the findings of a check that are not ok.
func ills(r doctor.Report, check string) []doctor.Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f doctor.Finding) bool {
		return f.Check != check || f.Severity == doctor.OK
	})
}

// sound is an error if a check found something, or did not look.
func sound(r doctor.Report, checks ...string) error {
	var errs []error
	for _, check := range checks {
		if found := ills(r, check); len(found) > 0 {
			errs = append(errs, fmt.Errorf("%s: %+v", check, found))
		}
		if !slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool { return f.Check == check && f.Severity == doctor.OK }) {
			errs = append(errs, fmt.Errorf("%s says nothing, not even that all is well", check))
		}
	}
	return errors.Join(errs...)
}

// named is an error unless a check has exactly one finding, with this severity,
// subject and command.
func named(r doctor.Report, check string, severity doctor.Severity, subject, command string) error {
	found := ills(r, check)
	if len(found) != 1 || found[0].Severity != severity || found[0].Subject != subject || !slices.Contains(found[0].Change, command) {
		return fmt.Errorf("want one %s of %s about %s with %q, not %+v", severity, check, subject, command, found)
	}
	if f := found[0]; f.What == "" || f.Evidence == "" || f.Why == "" || len(f.Measure) == 0 {
		return fmt.Errorf("the finding leaves something out: %+v", f)
	}
	return nil
}

// tunnel is an error unless the report has one tunnel, and it is to the remote.
func tunnel(r doctor.Report, source string, remote netip.Addr) error {
	tunnels := r.Inventory.Tunnels
	if len(tunnels) != 1 || tunnels[0].Source != source || !slices.Equal(tunnels[0].Remotes, []netip.Addr{remote}) || tunnels[0].VNI != 100 {
		return fmt.Errorf("want one tunnel of %s to %s, not %+v", source, remote, tunnels)
	}
	return nil
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	n := harness.NewTwoHosts(t, topo.TwoHostsOptions{})
	n.BuildRecorded(dut.KernelHalf{NoUDPCsum: true}, dut.KernelHalf{NoUDPCsum: true})
	n.StopCaptures()
	n.Once("a healthy host is healthy", func() error {
		r, err := consult(n.Ctx, n.A, nil)
		return errors.Join(err, tunnel(r, "kernel", n.TEPB), sound(r, "mtu", "port-mtu", "offloads", "remotes", "checksums"))
	})

	n.Must(n.A.SetMTU(topo.UnderlayName, 1400))
	_, err := n.A.Output(n.Ctx, "ethtool", "-K", topo.UnderlayName, "tx", "off")
	n.Must(err)
	const raise, turnOn = "ip link set dev u0 mtu 1500", "ethtool -K u0 tx on"
	n.Once("the planted faults are named", func() error {
		r, err := consult(n.Ctx, n.A, nil)
		return errors.Join(err, named(r, "mtu", doctor.Fault, "vxlan0", raise), named(r, "offloads", doctor.Warning, "u0", turnOn))
	})
	n.Once("so they are for the underlay alone", func() error {
		r, err := consult(n.Ctx, n.A, nil, "--interface", topo.UnderlayName)
		return errors.Join(err, named(r, "mtu", doctor.Fault, "vxlan0", raise), named(r, "offloads", doctor.Warning, "u0", turnOn))
	})
	n.Once("the text has both commands", func() error {
		out, err := n.A.Output(n.Ctx, harness.Program, "doctor", "--host")
		for _, want := range []string{raise, turnOn, "FAULT  mtu  vxlan0", "WARNING  offloads  u0", "The FortiGate study: 9 Mbit/s"} {
			if !strings.Contains(string(out), want) {
				err = errors.Join(err, fmt.Errorf("no %q in\n%s", want, out))
			}
		}
		return err
	})

	// A large frame is lost before the cure and not after it.
	large := func() error {
		_, err := n.Client.Output(n.Ctx, "ping", "-n", "-q", "-c", "1", "-W", "1", "-M", "do", "-s", "1422", topo.ServerV4.String())
		return err
	}
	n.Once("a full packet is lost", func() error {
		if large() == nil {
			return errors.New("it arrived")
		}
		return nil
	})
	for _, command := range []string{raise, turnOn} {
		_, err := n.A.Output(n.Ctx, "sh", "-c", command)
		n.Must(err)
	}
	n.Once("the commands cure them", func() error {
		r, err := consult(n.Ctx, n.A, nil)
		return errors.Join(err, sound(r, "mtu", "offloads"))
	})
	_, err = n.Client.Output(n.Ctx, "ip", "-4", "route", "flush", "cache") // as the finding says: the client was told
	n.Must(err)
	n.Fact("a full packet arrives", large)
}

// A tunnel of each kind is found, and a hop that is too narrow for it. Those of the kernel
// are TestDoctor's.

const raiseUnderlay = "ip link set dev u0 mtu 1500"

// doctorSelvage is a step of TestCommands, before one has anything dropped.
func doctorSelvage(n *harness.TwoHosts) {
	n.T.Helper()
	n.Once("the segment is sound", func() error {
		r, err := consult(n.Ctx, n.A, nil)
		return errors.Join(err, tunnel(r, "selvage", n.TEPB), sound(r, "mtu", "remotes", "edge"))
	})
	n.Must(n.A.SetMTU(topo.UnderlayName, 1400))
	n.Once("the underlay is too narrow", func() error {
		r, err := consult(n.Ctx, n.A, nil)
		return errors.Join(err, named(r, "mtu", doctor.Note, n.Edges["hosta"].Name+"/lab", raiseUnderlay))
	})
	n.Once("the end systems have no part in it", func() error {
		r, err := consult(n.Ctx, n.Client, nil)
		if len(r.Inventory.Tunnels)+len(r.Inventory.Edges) > 0 {
			err = errors.Join(err, fmt.Errorf("tunnels of another host: %+v", r.Inventory.Tunnels))
		}
		return err
	})
	n.Must(n.A.SetMTU(topo.UnderlayName, 1500))
}

func TestDoctorOpenVSwitch(t *testing.T) {
	t.Parallel()
	n := harness.NewTwoHosts(t, topo.TwoHostsOptions{})
	n.BuildRecorded(dut.OVSHalf{}, dut.OVSHalf{})
	dirs, err := filepath.Glob(filepath.Join(n.Topo.Dir, "ovs-hosta-*"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("directory of Open vSwitch: %v, %v", dirs, err)
	}
	env := []string{"OVS_RUNDIR=" + dirs[0]}
	n.Once("the tunnel is sound", func() error {
		r, err := consult(n.Ctx, n.A, env)
		return errors.Join(err, tunnel(r, "openvswitch", n.TEPB), sound(r, "mtu", "remotes"))
	})
	n.Must(n.A.SetMTU(topo.UnderlayName, 1400)) // below the bridge that has the address
	n.Once("the underlay is too narrow", func() error {
		r, err := consult(n.Ctx, n.A, env)
		return errors.Join(err, named(r, "mtu", doctor.Fault, "tunnel0", raiseUnderlay))
	})
}
