package topo

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/overlay"
)

// Where an edge puts what it shares with other programs, by its name.
const (
	edgeSockets = "/run/selvage"
	edgePins    = "/sys/fs/bpf/selvage"
)

// EdgeDirs are where an edge puts its sockets, and its pins; empty ones are the defaults, which
// all edges of the machine share.
type EdgeDirs struct{ Runtime, Pins string }

// OwnEdgeDirs are directories of this lab alone, which go with it. There edges may have names
// that others have too.
func (l *Lab) OwnEdgeDirs() (EdgeDirs, error) {
	dirs := EdgeDirs{Runtime: filepath.Join(l.Dir, "run"), Pins: filepath.Join(edgePins, "lab-"+l.ID)}
	return dirs, l.Owns(dirs.Pins)
}

// StateDir is where edges of this lab keep their revisions.
func (l *Lab) StateDir() string { return filepath.Join(l.Dir, "state") }

// args are flags of selvage edge.
func (d EdgeDirs) args() (args []string) {
	if d.Runtime != "" {
		args = append(args, "--runtime-dir", d.Runtime)
	}
	if d.Pins != "" {
		args = append(args, "--pin-root", d.Pins)
	}
	return args
}

// Edge is a running `selvage edge`.
type Edge struct {
	Name    string
	Config  string // the file
	Socket  string // of its API
	Command *Command
}

// EdgeName is a name for an edge on the host that no other lab uses.
func (h *Host) EdgeName() string { return "lab-" + h.lab.ID + "-" + strings.ToLower(h.Name) }

// StartEdge runs an edge of that name with a configuration on the host and waits
// until its API answers. An empty binary is EdgeProgram. The configuration is of the lab's version; a program that reads another
// gets that. env is added to its environment. The lab removes its files and
// pins, however it ends.
func (h *Host) StartEdge(ctx context.Context, binary, name, config string, env ...string) (*Edge, error) {
	return h.StartEdgeIn(ctx, EdgeDirs{}, binary, name, config, env...)
}

// StartEdgeIn is StartEdge with other directories.
func (h *Host) StartEdgeIn(ctx context.Context, dirs EdgeDirs, binary, name, config string, env ...string) (*Edge, error) {
	var err error
	if binary == "" { // of this build, which reads what it writes
		binary, err = EdgeProgram()
	} else {
		config, err = translate(ctx, binary, config)
	}
	if err != nil {
		return nil, fmt.Errorf("edge %s: %w", name, err)
	}
	state := filepath.Join(cmp.Or(dirs.Runtime, edgeSockets), name)
	e := &Edge{
		Name:   name,
		Config: filepath.Join(h.lab.Dir, name+".yaml"),
		Socket: state + ".sock",
	}
	for _, path := range []string{e.Socket, state + ".held", state + ".lock", state + ".egress", state + ".offload", filepath.Join(cmp.Or(dirs.Pins, edgePins), name)} {
		if err := h.lab.Owns(path); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(e.Config, []byte(config), 0o644); err != nil {
		return nil, fmt.Errorf("configuration of edge %s: %w", name, err)
	}
	// Stop ends it, not ctx, so that on Ctrl-C too it removes what it added.
	argv := append([]string{binary, "edge", "-c", e.Config}, dirs.args()...)
	e.Command = h.Command(context.WithoutCancel(ctx), argv...)
	// By its environment: a release that removes at any end knows no flag for it.
	e.Command.Log, e.Command.Env = filepath.Join(h.lab.Dir, name+".log"), append([]string{"SELVAGE_REMOVE_AT_EXIT=true", "SELVAGE_STATE_DIR=" + h.lab.StateDir()}, env...)
	if err := e.Command.Start(); err != nil {
		return nil, err
	}
	running, cancel := e.Command.whileRunning(ctx)
	defer cancel()
	err = await.That(running, "the API of edge "+name, func() error {
		_, err := e.Get(running, "/v1/status")
		return err
	})
	if err != nil {
		e.Command.Kill()
		return nil, fmt.Errorf("%w; its log: %s", err, e.Command.output())
	}
	return e, nil
}

// Get asks the edge's API for a document: "/v1/status", "/v1/flows", …
func (e *Edge) Get(ctx context.Context, path string) ([]byte, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", e.Socket)
		},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://edge"+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("edge %s: %w", e.Name, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("edge %s: %w", e.Name, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("edge %s: %s: %s", e.Name, response.Status, strings.TrimSpace(string(body)))
	}
	return body, nil
}

// Stop ends the edge with SIGTERM, upon which it removes all that it added.
func (e *Edge) Stop(ctx context.Context) error { return e.Command.Stop(ctx) }

// Kill ends the edge with SIGKILL: its data path goes on forwarding.
func (e *Edge) Kill() { e.Command.Kill() }

// SelvageOptions are of one half; zero fields get defaults.
type SelvageOptions struct {
	Binary      string // path of selvage; default: EdgeProgram
	VNI         uint32 // default 100
	Port        uint16 // UDP; default: the encapsulation's own
	UDPChecksum bool   // over IPv6
	// Encapsulation is vxlan (default), geneve or nvgre.
	Encapsulation overlay.Encapsulation
	// NoClamp leaves the MSS of TCP connections alone.
	NoClamp bool
	// NoFlowCache has every packet decided anew.
	NoFlowCache bool
	// Learned has no remotes and no static hosts behind them: a neighbour in BGP says, at this
	// address.
	Learned netip.Addr
	// Timing has the data path write down when packets pass.
	Timing bool
	// Started is told of each edge that runs.
	Started func(*Host, *Edge)
}

// Selvage runs an edge on both hosts.
func (n *TwoHosts) Selvage(ctx context.Context, o SelvageOptions) (*Path, error) {
	return n.Build(ctx, SelvageHalf(o), SelvageHalf(o))
}

// SelvageHalf is an edge with the access interface as its one port. Routed, it has
// a segment for each subnet, with a gateway of one router.
type SelvageHalf SelvageOptions

// Name is "selvage".
func (SelvageHalf) Name() string { return "selvage" }

// Describe is one line for reports.
func (o SelvageHalf) Describe() string {
	words := "Selvage edge, " + inWords(o.Encapsulation)
	if o.NoFlowCache {
		words += ", flow cache off"
	}
	if o.NoClamp {
		words += ", MSS not clamped"
	}
	return words
}

// inWords is an encapsulation's name as its standard writes it.
func inWords(e overlay.Encapsulation) string {
	if e == overlay.Geneve {
		return "Geneve"
	}
	return strings.ToUpper(string(cmp.Or(e, overlay.VXLAN)))
}

// Up starts an edge named EdgeName.
func (o SelvageHalf) Up(ctx context.Context, s Site) (func(context.Context) error, error) {
	name := s.Host.EdgeName()
	var env []string
	if o.Timing {
		env = append(env, "SELVAGE_TIMING=1")
	}
	e, err := s.Host.StartEdge(ctx, o.Binary, name, o.Config(name, s), env...)
	if err != nil {
		return nil, err
	}
	if o.Started != nil {
		o.Started(s.Host, e)
	}
	return e.Stop, nil
}

// Config is the configuration of the half's edge, in YAML.
func (o SelvageHalf) Config(name string, s Site) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: selvage.dev/v1alpha2
kind: Edge
metadata:
  name: %s
spec:
  underlay:
    interfaces: [%s]
    tep: "%s"
  flowCache:
    enabled: %t
`, name, UnderlayName, s.Local, !o.NoFlowCache)
	if o.Learned.IsValid() {
		fmt.Fprintf(&b, "  bgp:\n    as: %d\n    routerID: %s\n    neighbours:\n      - {name: reflector, address: %q}\n", evpnAS, routerID(s.Local), o.Learned)
	}
	b.WriteString("  segments:\n")
	home := "lab"
	if s.Subnets == nil {
		o.segment(&b, home, 0, s.Remote)
	} else {
		home = s.Subnets[0].Name
		o.routed(&b, s)
	}
	b.WriteString("  ports:\n")
	for i, name := range s.access() {
		fmt.Fprintf(&b, "    - name: %s\n      interface: %s\n      segment: %s\n", pairName("access", i), name, home)
	}
	return b.String()
}

// segment writes one segment; what is left out has the edge's default.
func (o SelvageHalf) segment(b *strings.Builder, name string, index uint32, remote netip.Addr) {
	fmt.Fprintf(b, "    - name: %s\n      vni: %d\n", name, vni(o.VNI)+index)
	if o.Encapsulation != "" && o.Encapsulation != overlay.VXLAN {
		fmt.Fprintf(b, "      encapsulation: %s\n", o.Encapsulation)
	}
	if o.Port != 0 {
		fmt.Fprintf(b, "      udpPort: %d\n", o.Port)
	}
	if o.UDPChecksum {
		b.WriteString("      udpChecksum: true\n")
	}
	if o.NoClamp {
		b.WriteString("      clampMSS: false\n")
	}
	if o.Learned.IsValid() {
		b.WriteString("      evpn: {}\n")
		return
	}
	fmt.Fprintf(b, "      remotes: [%q]\n", remote)
}

// routed writes a segment for each subnet and the router between them. Hosts behind
// the tunnel are static, as they are for the kernel.
func (o SelvageHalf) routed(b *strings.Builder, s Site) {
	for i, subnet := range s.Subnets {
		o.segment(b, subnet.Name, subnet.Index, s.Remote)
		if i > 0 && !o.Learned.IsValid() {
			fmt.Fprintf(b, "      fdb:\n        - {mac: %q, remote: %q}\n      neighbours:\n", subnet.EndMAC, s.Remote)
			for _, addr := range subnet.End {
				fmt.Fprintf(b, "        - {address: %q, mac: %q}\n", addr, subnet.EndMAC)
			}
		}
		gateways := make([]string, len(subnet.Gateways))
		for k, gateway := range subnet.Gateways {
			gateways[k] = fmt.Sprintf("%q", gateway)
		}
		fmt.Fprintf(b, "      gateway:\n        router: %s\n        addresses: [%s]\n", RouterName, strings.Join(gateways, ", "))
	}
	fmt.Fprintf(b, "  routers:\n    - name: %s\n", RouterName)
}
