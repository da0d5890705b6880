package ops

import (
	"fmt"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//
// The edge on hosta is killed while numbered datagrams cross. Commands say that it does not run and what goes on.

func TestDeadEdge(t *testing.T) {
	t.Parallel()
	n, streams := newStreams(t)
	config, name := n.Config("hosta"), n.Edges["hosta"].Name
	n.Edges["hosta"].Kill()
	n.GoOn(streams)

	asked := func(at *topo.Host, args ...string) string {
		out, err := at.Output(n.Ctx, append([]string{"sh", "-c", `"$@" 2>&1; echo "exit status $?"`, "sh", harness.Program}, args...)...)
		n.Must(err)
		return string(out)
	}
	gone := "selvage: edge " + name + " does not run; its data path has forwarded since 20"
	for _, command := range []string{"status", "ports", "sessions"} {
		out := asked(n.A, command, "--edge", name)
		if !strings.HasPrefix(out, gone) || !strings.Contains(out, " at interfaces, pinned in /sys/fs/bpf/selvage/"+name+")") || !strings.HasSuffix(out, "\nexit status 1\n") {
			t.Errorf("%s: %s", command, out)
		}
	}
	n.Once("status shows edges that run and this one", func() error {
		return missing(asked(n.A, "status"), nil, []string{gone, "Edge:           " + n.Edges["hostb"].Name + ", version", "\nexit status 1\n"})
	})
	n.Once("an edge with another runtime directory is not dead", func() error {
		return missing(asked(n.B, "ports", "--edge", n.Edges["hostb"].Name, "--runtime-dir", t.TempDir()), nil, []string{"no edge runs here"})
	})

	n.Start(n.A, name, config)
	n.Fact("the next edge has taken over and answers", func() error {
		status, err := n.Ask("hosta").Status(n.Ctx)
		if err == nil && !status.Adopted {
			err = fmt.Errorf("%+v", status)
		}
		return err
	})
	n.GoOn(streams)
	n.LostNothing(streams)
}
