// Command selvage-kube gives pods of a cluster fixed addresses outside: its controller runs once a cluster, its agent beside
// the edge of each node.
package main

import (
	"io"
	"log/slog"
	"os"

	"github.com/alecthomas/kong"
	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/selvage/selvage/kube/internal/cni"
	"github.com/selvage/selvage/kube/internal/commandline"
	"github.com/selvage/selvage/kube/internal/controller"
	"github.com/selvage/selvage/kube/internal/hold"
)

type commands struct {
	Controller controllerCmd `cmd:"" help:"Give out addresses and VNIs, and tell in status what became of gateways and policies."`
	Agent      agentCmd      `cmd:"" help:"Have the edge of this node, and what leads its pods to it, be what the API server says."`
	Install    installCmd    `cmd:"" help:"Have new pods of this node wait for their policies: make this program a CNI plugin."`
	Remove     removeCmd     `cmd:"" help:"Take away what leads pods of this node to its edge, and the CNI plugin."`
	Check      checkCmd      `cmd:"" help:"Say whether an installation works: its controller and the edge of each node."`
	Uninstall  uninstallCmd  `cmd:"" help:"Have the agents of all nodes take away what leads pods to the edges, and the CNI plugins."`
	Import     importCmd     `cmd:"" help:"Write other projects' egress objects as those of Selvage."`

	commandline.Version
}

func main() {
	if isPlugin(os.Args[0]) {
		cni.Main()
		return
	}
	logTo(os.Stderr)
	self.Main(&commands{})
}

var self = commandline.Program{
	Name: "selvage-kube", Description: "Egress addresses for pods of a cluster.", Vars: kong.Vars{"socket": hold.Socket, "state": hold.State, "lease": controller.Lease},
}

// logTo has all that is logged go there.
func logTo(w io.Writer) {
	slog.SetDefault(slog.New(slog.NewTextHandler(w, nil)))
	ctrl.SetLogger(logr.FromSlogHandler(slog.Default().Handler()))
}
