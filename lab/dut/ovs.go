package dut

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
)

// ovsSchema is where Debian's openvswitch-common puts it.
const ovsSchema = "/usr/share/openvswitch/vswitch.ovsschema"

// Names of Open vSwitch's bridges in a host.
const (
	ovsOverlayBridge  = "br-int" // access interface and tunnel port
	ovsUnderlayBridge = "br-underlay"
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
	return "Open vSwitch, userspace datapath, " + inWords(o.Encapsulation)
}

// ovs is the running pair of daemons of a host.
type ovs struct {
	host            *topo.Host
	dir             string
	env             []string
	server, vswitch *topo.Command
}

// Up starts the daemons and moves the TEP's address to the underlay bridge.
func (o OVSHalf) Up(ctx context.Context, s topo.Site) (func(context.Context) error, error) {
	v, err := o.up(ctx, s)
	if v == nil {
		return nil, err
	}
	return v.stop, err
}

func (o OVSHalf) up(ctx context.Context, s topo.Site) (*ovs, error) {
	if s.Subnets != nil {
		return nil, errors.New("no routing by Open vSwitch here, it only bridges: leave out ovs where the topology is routed")
	}
	v, err := startOVS(ctx, s.Host)
	if err != nil {
		return nil, err
	}
	if err := o.bridges(ctx, v, s); err != nil {
		return v, err
	}
	if err := v.moveTEP(ctx, s); err != nil {
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

// startOVS makes an empty database and starts its server and the switch.
func startOVS(ctx context.Context, h *topo.Host) (*ovs, error) {
	if _, err := os.Stat(ovsSchema); err != nil {
		return nil, fmt.Errorf("schema of Open vSwitch: %w: apt-get install openvswitch-switch", err)
	}
	dir, err := os.MkdirTemp(h.Lab().Dir, "ovs-"+h.Name+"-")
	if err != nil {
		return nil, err
	}
	v := &ovs{host: h, dir: dir, env: []string{"OVS_RUNDIR=" + dir, "OVS_DBDIR=" + dir, "OVS_LOGDIR=" + dir}}
	database := filepath.Join(dir, "conf.db")
	if err := v.run(ctx, "ovsdb-tool", "create", database, ovsSchema); err != nil {
		return nil, err
	}
	if v.server, err = v.daemon(ctx, "ovsdb-server", database, "--remote=punix:"+v.socket(), "--unixctl="+filepath.Join(dir, "server.ctl")); err != nil {
		return nil, err
	}
	if err := v.vsctl(ctx, "--no-wait", "init"); err != nil {
		return nil, errors.Join(err, v.stop(ctx))
	}
	if v.vswitch, err = v.daemon(ctx, "ovs-vswitchd", "unix:"+v.socket(), "--disable-system", "--unixctl="+v.control()); err != nil {
		return nil, errors.Join(err, v.stop(ctx))
	}
	return v, nil
}

func (v *ovs) socket() string  { return filepath.Join(v.dir, "db.sock") }
func (v *ovs) control() string { return filepath.Join(v.dir, "switch.ctl") }

// daemon starts a program in the foreground and waits for its control socket,
// which is its last argument.
func (v *ovs) daemon(ctx context.Context, argv ...string) (*topo.Command, error) {
	c := v.host.Command(context.WithoutCancel(ctx), argv...)
	for cpu := range runtime.NumCPU() { // it forwards for all, so it is where nobody else is, also when the lab is pinned
		c.CPUs = append(c.CPUs, cpu)
	}
	c.Env = v.env
	c.Log = filepath.Join(v.dir, argv[0]+".log")
	if err := c.Start(); err != nil {
		return nil, err
	}
	running, cancel := c.WhileRunning(ctx)
	defer cancel()
	_, socket, _ := strings.Cut(argv[len(argv)-1], "=")
	err := await.That(running, argv[0]+" to answer", func() error {
		return v.run(running, "ovs-appctl", "--timeout=1", "--target="+socket, "version")
	})
	if err != nil {
		c.Kill()
		return nil, fmt.Errorf("%w: %s", err, c.Tail())
	}
	return c, nil
}

func (v *ovs) run(ctx context.Context, argv ...string) error {
	c := v.host.Command(ctx, argv...)
	c.Env = v.env
	return c.Run()
}

func (v *ovs) vsctl(ctx context.Context, args ...string) error {
	return v.run(ctx, append([]string{"ovs-vsctl", "--db=unix:" + v.socket(), "--timeout=10"}, args...)...)
}

// bridges makes both bridges and the tunnel port.
func (o OVSHalf) bridges(ctx context.Context, v *ovs, s topo.Site) error {
	tunnel := append(o.tunnel(), ovsAddress("local_ip", s.Local), ovsAddress("remote_ip", s.Remote), fmt.Sprintf("options:csum=%t", o.UDPChecksum))
	if o.Port != 0 {
		tunnel = append(tunnel, fmt.Sprintf("options:dst_port=%d", o.Port))
	}
	mac, err := s.Host.MAC(topo.UnderlayName)
	if err != nil {
		return err
	}
	args := []string{
		"--", "add-br", ovsUnderlayBridge, "--", "set", "bridge", ovsUnderlayBridge, "datapath_type=netdev", "other_config:hwaddr=" + fmt.Sprintf("%q", mac.String()),
		"--", "add-port", ovsUnderlayBridge, topo.UnderlayName,
		"--", "set", "interface", ovsUnderlayBridge, fmt.Sprintf("mtu_request=%d", s.UnderlayMTU),
		"--", "add-br", ovsOverlayBridge, "--", "set", "bridge", ovsOverlayBridge, "datapath_type=netdev",
		"--", "set", "interface", ovsOverlayBridge, fmt.Sprintf("mtu_request=%d", s.InnerMTU),
	}
	for _, name := range s.Ports() {
		args = append(args, "--", "add-port", ovsOverlayBridge, name)
	}
	args = append(args, "--", "add-port", ovsOverlayBridge, "tunnel0", "--", "set", "interface", "tunnel0")
	return v.vsctl(ctx, append(args, tunnel...)...)
}

// tunnel is the tunnel port's type and the segment's number.
func (o OVSHalf) tunnel() []string {
	if o.Encapsulation == overlay.NVGRE {
		return []string{"type=gre", "options:in_key=flow", fmt.Sprintf("options:out_key=%d", vni(o.VNI)<<8)}
	}
	kind := o.Encapsulation
	if kind == "" {
		kind = overlay.VXLAN
	}
	return []string{"type=" + string(kind), fmt.Sprintf("options:key=%d", vni(o.VNI))}
}

// ovsAddress quotes an address, as colons need it.
func ovsAddress(option string, a fmt.Stringer) string {
	return fmt.Sprintf(`options:%s="%s"`, option, a)
}

// moveTEP gives the TEP's address to the underlay bridge, where the switch looks
// for the tunnel's route and learns the neighbour from ARP or ND.
func (v *ovs) moveTEP(ctx context.Context, s topo.Site) error {
	h := s.Host
	if err := h.DelAddr(topo.UnderlayName, topo.PrefixOf(s.Local)); err != nil {
		return err
	}
	if err := h.Up(ovsUnderlayBridge); err != nil {
		return err
	}
	if err := h.AddAddr(ovsUnderlayBridge, topo.PrefixOf(s.Local)); err != nil {
		return err
	}
	return h.AwaitUp(ctx, ovsUnderlayBridge)
}

// stop ends both daemons; their interfaces go with them.
func (v *ovs) stop(ctx context.Context) error {
	var errs []error
	for _, c := range []*topo.Command{v.vswitch, v.server} {
		if c != nil {
			errs = append(errs, c.Stop(ctx))
		}
	}
	return errors.Join(errs...)
}
