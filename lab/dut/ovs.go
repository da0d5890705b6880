package dut

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/cores"
	"github.com/selvage/selvage/lab/topo"
)

// ovsSchema is where Debian's openvswitch-common puts it.
const ovsSchema = "/usr/share/openvswitch/vswitch.ovsschema"

// Names of Open vSwitch's bridges in a host.
const (
	OVSOverlayBridge  = "br-int" // access interface and tunnel port
	OVSUnderlayBridge = "br-underlay"
)

// OVSOptions are of one half; zero fields get defaults.
type OVSOptions struct {
	VNI  uint32 // default 100
	Port uint16 // UDP; default: the encapsulation's own
	// Encapsulation is vxlan (default), geneve or nvgre. That is GRE with a key to
	// Open vSwitch: the VSID and, in its last byte, the FlowID (RFC 7637 section
	// 3.2). It sends FlowID 0 and accepts every key.
	Encapsulation overlay.Encapsulation
	// UDPChecksum sends outer UDP checksums.
	UDPChecksum bool
}

// OVS runs Open vSwitch's userspace datapath on both hosts.
func OVS(ctx context.Context, n *topo.TwoHosts, o OVSOptions) (*topo.Path, error) {
	return n.Build(ctx, OVSHalf(o), OVSHalf(o))
}

// OVSHalf is an Open vSwitch of its own, with a database and both daemons, whose
// userspace datapath (datapath_type=netdev) forwards. Such a tunnel leaves by a
// bridge that has the underlay interface as a port and the TEP's address as its
// own. That datapath takes frames from packet sockets as they are, whole segments
// and missing checksums included, so the kernels that send to it, of the end
// system and of the other host, have to segment and fill in before.
type OVSHalf OVSOptions

// Name is "ovs".
func (OVSHalf) Name() string { return "ovs" }

// Describe is one line for reports.
func (o OVSHalf) Describe() string {
	return "Open vSwitch, userspace datapath, " + EncapsulationName(o.Encapsulation)
}

// OpenVSwitch is the running pair of daemons of a host.
type OpenVSwitch struct {
	Host *topo.Host
	Dir  string   // of its database, sockets and logs
	Env  []string // with which its tools find it

	server, vswitch *topo.Command
}

// Up starts the daemons and moves the TEP's address to the underlay bridge.
func (o OVSHalf) Up(ctx context.Context, s topo.Site) (func(context.Context) error, error) {
	v, err := o.Start(ctx, s)
	if v == nil {
		return nil, err
	}
	return v.Stop, err
}

// Start is Up, and returns what runs, also on error.
func (o OVSHalf) Start(ctx context.Context, s topo.Site) (*OpenVSwitch, error) {
	if s.Subnets != nil {
		return nil, errors.New("no routing by Open vSwitch here, it only bridges: leave out ovs where the topology is routed")
	}
	v, err := StartOVS(ctx, s.Host)
	if err != nil {
		return nil, err
	}
	if err := o.bridges(ctx, v, s); err != nil {
		return v, err
	}
	if err := v.MoveTEP(ctx, s); err != nil {
		return v, err
	}
	// Without checksums in the device the kernel turns segmentation off too.
	off := map[string]bool{"tx-checksum-ip-generic": false}
	_, err = s.Peer.SetFeatures(topo.UnderlayName, off)
	for _, end := range s.Ends {
		_, failed := end.SetFeatures(topo.EndName, off)
		err = errors.Join(err, failed)
	}
	return v, err
}

// StartOVS makes an empty database and starts its server and the switch.
func StartOVS(ctx context.Context, h *topo.Host) (*OpenVSwitch, error) {
	if _, err := os.Stat(ovsSchema); err != nil {
		return nil, fmt.Errorf("schema of Open vSwitch: %w: apt-get install openvswitch-switch", err)
	}
	dir, err := os.MkdirTemp(h.Lab().Dir, "ovs-"+h.Name+"-")
	if err != nil {
		return nil, err
	}
	v := &OpenVSwitch{Host: h, Dir: dir, Env: []string{"OVS_RUNDIR=" + dir, "OVS_DBDIR=" + dir, "OVS_LOGDIR=" + dir}}
	database := filepath.Join(dir, "conf.db")
	if err := v.Run(ctx, "ovsdb-tool", "create", database, ovsSchema); err != nil {
		return nil, err
	}
	if v.server, err = v.daemon(ctx, "ovsdb-server", database, "--remote=punix:"+v.Socket(), "--unixctl="+filepath.Join(dir, "server.ctl")); err != nil {
		return nil, err
	}
	if err := v.VSCtl(ctx, "--no-wait", "init"); err != nil {
		return nil, errors.Join(err, v.Stop(ctx))
	}
	if v.vswitch, err = v.daemon(ctx, "ovs-vswitchd", "unix:"+v.Socket(), "--disable-system", "--unixctl="+v.Control()); err != nil {
		return nil, errors.Join(err, v.Stop(ctx))
	}
	return v, nil
}

// Socket is the database's.
func (v *OpenVSwitch) Socket() string { return filepath.Join(v.Dir, "db.sock") }

// Control is where ovs-appctl asks the switch.
func (v *OpenVSwitch) Control() string { return filepath.Join(v.Dir, "switch.ctl") }

// daemon starts a program in the foreground and waits for its control socket,
// which is its last argument.
func (v *OpenVSwitch) daemon(ctx context.Context, argv ...string) (*topo.Command, error) {
	c := v.Host.Command(context.WithoutCancel(ctx), argv...)
	c.CPUs = cores.Usable() // it forwards for all, so it is where nobody else is, also when the lab is pinned
	c.Env = v.Env
	c.Log = filepath.Join(v.Dir, argv[0]+".log")
	if err := c.Start(); err != nil {
		return nil, err
	}
	running, cancel := c.WhileRunning(ctx)
	defer cancel()
	_, socket, _ := strings.Cut(argv[len(argv)-1], "=")
	err := await.That(running, argv[0]+" to answer", func() error {
		return v.Run(running, "ovs-appctl", "--timeout=1", "--target="+socket, "version")
	})
	if err != nil {
		c.Kill()
		return nil, fmt.Errorf("%w: %s", err, c.Tail())
	}
	return c, nil
}

// PID is the switch's own process.
func (v *OpenVSwitch) PID() int { return v.vswitch.PID() }

// Run runs one of its tools in its host.
func (v *OpenVSwitch) Run(ctx context.Context, argv ...string) error {
	c := v.Host.Command(ctx, argv...)
	c.Env = v.Env
	return c.Run()
}

// VSCtl changes the configuration in its database, by ovs-vsctl.
func (v *OpenVSwitch) VSCtl(ctx context.Context, args ...string) error {
	return v.Run(ctx, append([]string{"ovs-vsctl", "--db=unix:" + v.Socket(), "--timeout=10"}, args...)...)
}

// AppCtl asks the switch.
func (v *OpenVSwitch) AppCtl(ctx context.Context, args ...string) error {
	return v.Run(ctx, append([]string{"ovs-appctl", "--timeout=5", "--target=" + v.Control()}, args...)...)
}

// bridges makes both bridges and the tunnel port.
func (o OVSHalf) bridges(ctx context.Context, v *OpenVSwitch, s topo.Site) error {
	tunnel := append(o.Tunnel(), OVSAddress("local_ip", s.Local), OVSAddress("remote_ip", s.Remote), fmt.Sprintf("options:csum=%t", o.UDPChecksum))
	if o.Port != 0 {
		tunnel = append(tunnel, fmt.Sprintf("options:dst_port=%d", o.Port))
	}
	mac, err := s.Host.MAC(topo.UnderlayName)
	if err != nil {
		return err
	}
	args := []string{
		"--", "add-br", OVSUnderlayBridge, "--", "set", "bridge", OVSUnderlayBridge, "datapath_type=netdev", "other_config:hwaddr=" + fmt.Sprintf("%q", mac.String()),
		"--", "add-port", OVSUnderlayBridge, topo.UnderlayName,
		"--", "set", "interface", OVSUnderlayBridge, fmt.Sprintf("mtu_request=%d", s.UnderlayMTU),
		"--", "add-br", OVSOverlayBridge, "--", "set", "bridge", OVSOverlayBridge, "datapath_type=netdev",
		"--", "set", "interface", OVSOverlayBridge, fmt.Sprintf("mtu_request=%d", s.InnerMTU),
	}
	for _, name := range s.Ports() {
		args = append(args, "--", "add-port", OVSOverlayBridge, name)
	}
	args = append(args, "--", "add-port", OVSOverlayBridge, "tunnel0", "--", "set", "interface", "tunnel0")
	return v.VSCtl(ctx, append(args, tunnel...)...)
}

// Tunnel is the tunnel port's type and the segment's number.
func (o OVSHalf) Tunnel() []string {
	if o.Encapsulation == overlay.NVGRE {
		return []string{"type=gre", "options:in_key=flow", fmt.Sprintf("options:out_key=%d", vni(o.VNI)<<8)}
	}
	kind := o.Encapsulation
	if kind == "" {
		kind = overlay.VXLAN
	}
	return []string{"type=" + string(kind), fmt.Sprintf("options:key=%d", vni(o.VNI))}
}

// OVSAddress quotes an address, as colons need it.
func OVSAddress(option string, a fmt.Stringer) string {
	return fmt.Sprintf(`options:%s="%s"`, option, a)
}

// MoveTEP gives the TEP's address to the underlay bridge, where the switch looks
// for the tunnel's route and learns the neighbour from ARP or ND.
func (v *OpenVSwitch) MoveTEP(ctx context.Context, s topo.Site) error {
	h := s.Host
	if err := h.DelAddr(topo.UnderlayName, topo.PrefixOf(s.Local)); err != nil {
		return err
	}
	if err := h.Up(OVSUnderlayBridge); err != nil {
		return err
	}
	if err := h.AddAddr(OVSUnderlayBridge, topo.PrefixOf(s.Local)); err != nil {
		return err
	}
	return h.AwaitUp(ctx, OVSUnderlayBridge)
}

// Stop ends both daemons; their interfaces go with them.
func (v *OpenVSwitch) Stop(ctx context.Context) error {
	var errs []error
	for _, c := range []*topo.Command{v.vswitch, v.server} {
		if c != nil {
			errs = append(errs, c.Stop(ctx))
		}
	}
	return errors.Join(errs...)
}
