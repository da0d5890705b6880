package harness

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/lab/topo"
)

// BGPLoad is a running test/bgploadgen: a BGP neighbour that tells of many edges.
type BGPLoad struct {
	n     *Network
	in    io.Writer
	lines *bufio.Scanner
}

// BGPLoadOptions say who it is, whom it tells, and of how much.
type BGPLoadOptions struct {
	Local, Neighbour netip.Addr
	Peer             netip.Addr // tunnel endpoint of the first edge; the others' follow
	Peers            int        // edges
	Hosts, Prefixes  int        // of each edge
	VNI              int        // of the segment of the hosts
}

// StartBGPLoad runs one on a host, and waits for its session.
func StartBGPLoad(n *Network, h *topo.Host, o BGPLoadOptions) *BGPLoad {
	n.T.Helper()
	binary := filepath.Join(n.T.TempDir(), "bgploadgen")
	if out, err := exec.CommandContext(n.Ctx, "go", "build", "-o", binary, "github.com/selvage/selvage/test/bgploadgen").CombinedOutput(); err != nil {
		n.T.Fatalf("build bgploadgen: %v\n%s", err, out)
	}
	pipe := filepath.Join(n.T.TempDir(), "commands")
	n.Must(unix.Mkfifo(pipe, 0o600))
	stdout, out, err := os.Pipe()
	n.Must(err)
	command := h.Command(n.Ctx, "sh", "-c", fmt.Sprintf("exec %s -local %s -neighbour %s -peer %s -peers %d -hosts %d -prefixes %d -vni %d <%s",
		binary, o.Local, o.Neighbour, o.Peer, o.Peers, o.Hosts, o.Prefixes, o.VNI, pipe))
	command.Stdout = out
	n.Must(command.Start())
	stdin, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	n.Must(err)
	n.Must(out.Close())
	n.T.Cleanup(func() { stdin.Close(); stdout.Close() })
	c := &BGPLoad{n, stdin, bufio.NewScanner(stdout)}
	c.await("session")
	return c
}

// Do has it tell something, and waits until it has.
func (c *BGPLoad) Do(what string) {
	c.n.T.Helper()
	_, err := fmt.Fprintln(c.in, what)
	c.n.Must(err)
	c.await(what)
}

// await reads lines until one is this.
func (c *BGPLoad) await(line string) {
	c.n.T.Helper()
	for c.lines.Scan() {
		if c.lines.Text() == line {
			return
		}
	}
	c.n.Fail("bgploadgen says "+line, errors.Join(errors.New("it has ended"), c.lines.Err()))
}
