package experiments

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"text/template"

	"github.com/selvage/selvage/internal/program"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
)

// shellFiles are what a shell's lab gets: commands in bin/, and templates of the
// configuration and of the text that greets.
//
//go:embed shell
var shellFiles embed.FS

// shellWorld is two hosts with an edge each, and the files that a shell among them needs.
type shellWorld struct {
	lab    *topo.Lab
	dirs   dut.EdgeDirs
	readme string
}

// newShellWorld builds it. With an error what there is of it, perhaps nil, has to be closed.
func newShellWorld(ctx context.Context) (*shellWorld, error) {
	lab, err := topo.New(ctx, "shell")
	if err != nil {
		return nil, err
	}
	w := &shellWorld{lab: lab}
	if w.dirs, err = dut.OwnEdgeDirs(lab); err != nil {
		return w, err
	}
	if err := lab.OwnsProcesses(w.variable()); err != nil {
		return w, err
	}
	if err := os.Mkdir(w.dirs.Runtime, 0o755); err != nil {
		return w, err
	}
	names := topo.TwoHostsNames{Client: "guest1", A: "host1", B: "host2", Server: "guest2"}
	n, err := topo.NewTwoHosts(ctx, lab, topo.TwoHostsOptions{Names: names})
	if err != nil {
		return w, err
	}
	if err := addShellGuest(ctx, lab, n); err != nil {
		return w, err
	}
	if _, err := n.Build(ctx, shellEdge{w.dirs, names.Client, names.B, false}, shellEdge{w.dirs, names.Server, names.A, true}); err != nil {
		return w, err
	}
	return w, w.writeFiles(n)
}

// addShellGuest adds a guest behind host1 that is at no port of its edge yet.
func addShellGuest(ctx context.Context, lab *topo.Lab, n *topo.TwoHosts) error {
	guest, err := lab.Host("guest3")
	if err != nil {
		return err
	}
	return lab.Link(ctx, topo.LinkEnd{
		Host: guest, Name: topo.EndName, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 3},
		Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.3/24"), netip.MustParsePrefix("fd00::3/64")},
	}, topo.LinkEnd{Host: n.A, Name: "p1"}, n.Options.InnerMTU)
}

func (w *shellWorld) close() error { return w.lab.Close() }

// variable tells the processes of the shell from all others.
func (w *shellWorld) variable() string { return "LAB=" + w.lab.Dir }

// environment is what the shell's has besides the user's.
func (w *shellWorld) environment() []string {
	return []string{
		w.variable(),
		"LAB_PINS=" + w.dirs.Pins,
		"SELVAGE_RUNTIME_DIR=" + w.dirs.Runtime,
		"SELVAGE_STATE_DIR=" + dut.StateDir(w.lab),
		"PATH=" + filepath.Join(w.lab.Dir, "bin") + string(os.PathListSeparator) + os.Getenv("PATH"),
		// Of shells other than bash: what they begin with.
		"PS1=lab# ",
	}
}

// writeFiles writes the commands, with selvage among them, and the text that greets.
func (w *shellWorld) writeFiles(n *topo.TwoHosts) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("path of this program: %w", err)
	}
	edge, err := dut.EdgeProgram()
	if err != nil {
		return err
	}
	bin := filepath.Join(w.lab.Dir, "bin")
	err = errors.Join(os.Mkdir(bin, 0o755), os.Symlink(edge, filepath.Join(bin, program.Selvage)), os.Symlink(self, filepath.Join(bin, program.Lab)))
	if err != nil {
		return err
	}
	commands, err := fs.ReadDir(shellFiles, "shell/bin")
	if err != nil {
		return err
	}
	for _, command := range commands {
		if err := w.copyFile("shell/bin/"+command.Name(), filepath.Join("bin", command.Name()), 0o755); err != nil {
			return err
		}
	}
	if err := w.copyFile("shell/bashrc", "bashrc", 0o644); err != nil {
		return err
	}
	if w.readme, err = fill("shell/README", map[string]any{"Dir": w.lab.Dir, "Picture": n.Picture()}); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(w.lab.Dir, "README"), []byte(w.readme), 0o644)
}

func (w *shellWorld) copyFile(from, to string, mode fs.FileMode) error {
	text, err := shellFiles.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(w.lab.Dir, to), text, mode)
}

// fill is an embedded template with values.
func fill(name string, values any) (string, error) {
	t, err := template.ParseFS(shellFiles, name)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	err = t.Option("missingkey=error").Execute(&b, values)
	return b.String(), err
}

// shellEdge is the half of a host in the shell's lab: an edge that has the name of its host.
type shellEdge struct {
	dirs         dut.EdgeDirs
	guest, other string // of the host: its guest, and the host across the underlay
	firewall     bool
}

// Name is "selvage".
func (shellEdge) Name() string { return "selvage" }

// Describe is one line.
func (shellEdge) Describe() string { return "Selvage edge, VXLAN" }

// Up starts the edge with a configuration that is written to be read.
func (e shellEdge) Up(ctx context.Context, s topo.Site) (func(context.Context) error, error) {
	config, err := fill("shell/edge.yaml", map[string]any{
		"Name": s.Host.Name, "Other": e.other, "Guest": e.guest, "TEP": s.Local, "Remote": s.Remote,
		"Underlay": topo.UnderlayName, "Access": topo.AccessName, "Firewall": e.firewall,
	})
	if err != nil {
		return nil, err
	}
	edge, err := dut.StartEdgeIn(ctx, s.Host, e.dirs, "", s.Host.Name, config)
	if err != nil {
		return nil, err
	}
	return edge.Stop, nil
}
