package dut

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/topo"
)

// frrDaemons is where Debian's package and FRR's own put the daemons.
const frrDaemons = "/usr/lib/frr"

// AS is the number of the one autonomous system of all speakers.
const AS = 65000

// RouterID is the number of a speaker, also where the underlay is IPv6.
func RouterID(addr netip.Addr) netip.Addr {
	b := addr.AsSlice()
	return netip.AddrFrom4([4]byte{192, 0, 2, b[len(b)-1]})
}

// FRRConfig is the text of the daemons' configuration files. BGP and BFD run only where
// there is some.
type FRRConfig struct {
	Zebra, BGP, BFD string
	// Integrated is a whole frr.conf instead, which all daemons run by, with staticd.
	Integrated string
	// VRFs are namespaces that are VRFs of the host (zebra -n), by their names in FRR.
	VRFs map[string]*topo.Host
}

// FRR is FRRouting on a host. Its daemons have sockets in the lab's directory alone: none
// listens for terminals on TCP, and nothing of the machine's own FRR is touched.
type FRR struct {
	host    *topo.Host
	dir     string
	config  FRRConfig
	daemons []*topo.Command
}

// StartFRR runs the daemons and waits until each has read its configuration. A line that
// one does not understand is an error.
func StartFRR(ctx context.Context, h *topo.Host, config FRRConfig) (*FRR, error) {
	if _, err := topo.Tool("vtysh"); err != nil {
		return nil, fmt.Errorf("FRR on %s: %w: apt-get install frr", h.Name, err)
	}
	f := &FRR{host: h, dir: filepath.Join(h.Lab().Dir, "frr-"+h.Name), config: config}
	// The daemons do not stay root.
	if err := errors.Join(os.MkdirAll(f.dir, 0o777), os.Chmod(f.dir, 0o777)); err != nil {
		return nil, fmt.Errorf("sockets of FRR on %s: %w", h.Name, err)
	}
	if err := f.Start(ctx); err != nil {
		return nil, err
	}
	return f, nil
}

// Start runs the daemons again after Stop or Kill.
func (f *FRR) Start(ctx context.Context) error {
	all := f.config.Integrated != ""
	var vrfs []string
	if len(f.config.VRFs) > 0 {
		vrfs = []string{"-n"}
	}
	for _, daemon := range []struct {
		name, config string
		options      []string
	}{
		{"zebra", f.config.Zebra, vrfs},
		{"bfdd", f.config.BFD, []string{"--bfdctl", f.path("bfdd.ctl")}},
		{"bgpd", f.config.BGP, nil},
		{"staticd", "", nil},
	} {
		if daemon.config == "" && daemon.name != "zebra" && !all {
			continue
		}
		if err := f.start(ctx, daemon.name, daemon.config, daemon.options); err != nil {
			f.Kill()
			return fmt.Errorf("FRR on %s: %w", f.host.Name, err)
		}
	}
	if !all {
		return nil
	}
	return f.integrate(ctx)
}

// integrate gives the daemons the whole configuration, as FRR's own service does. vtysh names the
// line that no daemon understands.
func (f *FRR) integrate(ctx context.Context) error {
	file := f.path("frr.conf")
	if err := os.WriteFile(file, []byte(f.config.Integrated), 0o644); err != nil {
		return err
	}
	out, err := f.host.Output(ctx, "vtysh", "--vty_socket", f.dir, "-f", file)
	if err == nil && bytes.Contains(out, []byte("Unknown command")) {
		err = errors.New("it does not understand a line")
	}
	if err != nil {
		f.Kill()
		return fmt.Errorf("FRR on %s: its configuration: %w: %s", f.host.Name, err, out)
	}
	return nil
}

// withVRFs has a daemon see the namespaces of VRFs, and no other, where ip-netns(8) has them.
func (f *FRR) withVRFs(argv []string) []string {
	if len(f.config.VRFs) == 0 {
		return argv
	}
	const enter = `set -e; dir=$1; shift
mount --make-rprivate /
mkdir -p "$dir"
mount -t tmpfs vrfs "$dir"
while [ "$1" != -- ]; do touch "$dir/$1"; mount --bind "$2" "$dir/$1"; shift 2; done
shift
mount --move "$dir" /run/netns
exec "$@"`
	sh := []string{"unshare", "--mount", "sh", "-c", enter, "sh", f.path("vrfs")}
	for name, h := range f.config.VRFs {
		sh = append(sh, name, h.Path())
	}
	return append(append(sh, "--"), argv...)
}

func (f *FRR) path(name string) string { return filepath.Join(f.dir, name) }

// start runs one daemon. It answers at its terminal when it has read its file.
func (f *FRR) start(ctx context.Context, name, config string, options []string) error {
	program := filepath.Join(frrDaemons, name)
	if _, err := os.Stat(program); err != nil {
		return fmt.Errorf("%w: apt-get install frr", err)
	}
	socket := f.path(name + ".vty")
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a daemon that was killed
		return err
	}
	if err := os.WriteFile(f.path(name+".conf"), []byte(config), 0o644); err != nil {
		return err
	}
	argv := append([]string{program, "-f", f.path(name + ".conf"), "-i", f.path(name + ".pid"), "-z", f.path("zserv.sock"),
		"--vty_socket", f.dir, "-P", "0", "--log", "stdout"}, options...)
	c := f.host.Command(context.WithoutCancel(ctx), f.withVRFs(argv)...) // Stop ends it
	c.Log = f.path(name + ".log")
	before, _ := os.ReadFile(c.Log) // of an earlier run
	if err := c.Start(); err != nil {
		return err
	}
	f.daemons = append(f.daemons, c)
	running, cancel := c.WhileRunning(ctx)
	defer cancel()
	if err := await.That(running, name+" to answer", func() error { // its socket is there before it listens
		_, err := f.show(running, name, "show version")
		return err
	}); err != nil {
		return fmt.Errorf("%w; it said: %s", err, c.Tail())
	}
	output, err := os.ReadFile(c.Log)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(output[min(len(before), len(output)):]) {
		if bytes.Contains(line, []byte("on config line")) {
			return fmt.Errorf("%s does not understand its configuration: %s", name, bytes.TrimSpace(line))
		}
	}
	return nil
}

// Stop ends the daemons as a service manager does: sessions are closed, routes taken out.
func (f *FRR) Stop(ctx context.Context) error {
	var errs []error
	for i := len(f.daemons) - 1; i >= 0; i-- {
		errs = append(errs, f.daemons[i].Stop(ctx))
	}
	f.daemons = nil
	return errors.Join(errs...)
}

// Kill ends the daemons by SIGKILL: what they had written into the kernel stays.
func (f *FRR) Kill() {
	for i := len(f.daemons) - 1; i >= 0; i-- {
		f.daemons[i].Kill()
	}
	f.daemons = nil
}

// Log is what a daemon has said.
func (f *FRR) Log(daemon string) (string, error) {
	text, err := os.ReadFile(f.path(daemon + ".log"))
	return string(text), err
}

// Do runs commands of vtysh one after the other and returns what they print.
func (f *FRR) Do(ctx context.Context, commands ...string) (string, error) {
	argv := []string{"vtysh", "--vty_socket", f.dir}
	for _, c := range commands {
		argv = append(argv, "-c", c)
	}
	out, err := f.host.Output(ctx, argv...)
	output := strings.TrimSpace(string(out))
	if err == nil && strings.HasPrefix(output, "% ") { // vtysh is content with that
		return output, fmt.Errorf("FRR on %s: %q: %s", f.host.Name, commands, output)
	}
	if err != nil {
		return output, fmt.Errorf("FRR on %s: %q: %w: %s", f.host.Name, commands, err, output)
	}
	return output, nil
}

// Configure changes the running configuration; what it was at the start comes back with
// the next one.
func (f *FRR) Configure(ctx context.Context, lines ...string) error {
	_, err := f.Do(ctx, append([]string{"configure terminal"}, lines...)...)
	return err
}

// JSON reads what a show command prints.
func (f *FRR) JSON(ctx context.Context, command string, into any) error {
	words := strings.Fields(command)
	daemon := map[string]string{"bgp": "bgpd", "bfd": "bfdd"}[words[1]]
	if daemon == "" {
		daemon = "zebra"
	}
	out, err := f.show(ctx, daemon, command)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("FRR on %s: %q: %w", f.host.Name, command, err)
	}
	return nil
}

// show asks a daemon at its terminal's socket, in a few hundred microseconds; to start vtysh
// for that takes a hundred times as long. As vtysh it enables first: before that bfdd knows no
// command that shows anything.
func (f *FRR) show(ctx context.Context, daemon, command string) (output []byte, err error) {
	fail := func(err error) error { return fmt.Errorf("%s on %s: %q: %w", daemon, f.host.Name, command, err) }
	conn, err := new(net.Dialer).DialContext(ctx, "unix", f.path(daemon+".vty"))
	if err != nil {
		return nil, fail(err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	for _, line := range []string{"enable", command} {
		if output, err = write(conn, line); err != nil {
			return nil, fail(errors.Join(ctx.Err(), err))
		}
	}
	return output, nil
}

// write tells a daemon's terminal one line and returns the answer, which ends with three zeros and
// a status.
func write(conn net.Conn, line string) (output []byte, err error) {
	if _, err := conn.Write(append([]byte(line), 0)); err != nil {
		return nil, err
	}
	for part := make([]byte, 4096); ; {
		n, err := conn.Read(part)
		output = append(output, part[:n]...)
		if end := len(output) - 4; end >= 0 && bytes.Equal(output[end:end+3], make([]byte, 3)) {
			if status := output[end+3]; status != 0 {
				return nil, fmt.Errorf("status %d: %s", status, bytes.TrimSpace(output[:end]))
			}
			return output[:end], nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// AwaitSessions waits until the sessions with all peers are established.
func (f *FRR) AwaitSessions(ctx context.Context, peers ...netip.Addr) error {
	return await.That(ctx, "BGP sessions of "+f.host.Name, func() error { return f.Sessions(ctx, peers...) })
}

// Sessions says which session is not established.
func (f *FRR) Sessions(ctx context.Context, peers ...netip.Addr) error {
	var all map[string]struct {
		State string `json:"bgpState"`
	}
	if err := f.JSON(ctx, "show bgp neighbors json", &all); err != nil {
		return err
	}
	var errs []error
	for _, peer := range peers {
		if state := all[peer.String()].State; state != "Established" {
			errs = append(errs, fmt.Errorf("the one with %s is %q", peer, state))
		}
	}
	return errors.Join(errs...)
}

// VTEPs are the other tunnel endpoints that zebra knows of a segment.
func (f *FRR) VTEPs(ctx context.Context, vni uint32) (known []netip.Addr, err error) {
	var segment struct {
		VTEPs []netip.Addr `json:"numRemoteVteps"`
	}
	err = f.JSON(ctx, fmt.Sprintf("show evpn vni %d json", vni), &segment)
	return segment.VTEPs, err
}
