package harness

import (
	"context"
	"os"
	"path/filepath"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/topo"
)

// OVSSwitch is an Open vSwitch of its own on a host, with a userspace datapath,
// that is not a tunnel's end (dut.OVSHalf) but a switch behind a port.
type OVSSwitch struct {
	host *topo.Host
	dir  string
}

// StartSwitch starts a database and a switch, which end with the lab.
func StartSwitch(ctx context.Context, lab *topo.Lab, h *topo.Host) (*OVSSwitch, error) {
	dir, err := os.MkdirTemp(lab.Dir, "switch-")
	if err != nil {
		return nil, err
	}
	s := &OVSSwitch{h, dir}
	if err := s.run(ctx, "ovsdb-tool", "create", s.file("conf.db"), "/usr/share/openvswitch/vswitch.ovsschema"); err != nil {
		return nil, err
	}
	if err := s.daemon(ctx, s.file("server.ctl"), "ovsdb-server", s.file("conf.db"), "--remote=punix:"+s.file("db.sock")); err != nil {
		return nil, err
	}
	if err := s.Vsctl(ctx, "--no-wait", "init"); err != nil {
		return nil, err
	}
	return s, s.daemon(ctx, s.file("switch.ctl"), "ovs-vswitchd", "unix:"+s.file("db.sock"), "--disable-system")
}

func (s *OVSSwitch) file(name string) string { return filepath.Join(s.dir, name) }

func (s *OVSSwitch) command(ctx context.Context, argv ...string) *topo.Command {
	c := s.host.Command(ctx, argv...)
	c.Env = []string{"OVS_RUNDIR=" + s.dir, "OVS_DBDIR=" + s.dir, "OVS_LOGDIR=" + s.dir}
	return c
}

func (s *OVSSwitch) run(ctx context.Context, argv ...string) error {
	return s.command(ctx, argv...).Run()
}

// Vsctl runs ovs-vsctl on its database.
func (s *OVSSwitch) Vsctl(ctx context.Context, args ...string) error {
	return s.run(ctx, append([]string{"ovs-vsctl", "--db=unix:" + s.file("db.sock"), "--timeout=10"}, args...)...)
}

// daemon starts a program and waits until it answers at its control socket.
func (s *OVSSwitch) daemon(ctx context.Context, control string, argv ...string) error {
	c := s.command(ctx, append(argv, "--unixctl="+control)...)
	c.Log = s.file(argv[0] + ".log")
	if err := c.Start(); err != nil {
		return err
	}
	return await.That(ctx, argv[0]+" to answer", func() error {
		return s.run(ctx, "ovs-appctl", "--timeout=1", "--target="+control, "version")
	})
}
