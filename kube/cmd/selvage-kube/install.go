package main

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/selvage/selvage/kube/internal/agent"
	"github.com/selvage/selvage/kube/internal/cni"
	"github.com/selvage/selvage/kube/internal/commandline"
	"github.com/selvage/selvage/kube/internal/hold"
)

// chaining is where the CNI plugin of a node is, as this program sees the folders of the node.
type chaining struct {
	CNIPlugins        string `name:"cni-plugins" placeholder:"DIR" help:"Folder of the node's CNI plugins, such as /opt/cni/bin."`
	CNIConfigurations string `name:"cni-configurations" placeholder:"DIR" help:"Folder of the node's CNI configurations, such as /etc/cni/net.d."`
}

type installCmd struct {
	Node   string     `required:"" env:"NODE_NAME" help:"Name of this node."`
	NodeIP netip.Addr `required:"" name:"node-ip" env:"NODE_IP" help:"Address of this node, an InternalIP of the API server's."`
	File   string     `default:"/run/selvage-kube/edge.yaml" placeholder:"FILE" help:"File of this node's edge, which is written where there is none."`
	chaining
}

// Run has the edge start before its agent does, and makes this program a CNI plugin of the node.
func (i *installCmd) Run() error {
	if err := agent.First(i.File, i.Node, i.NodeIP); err != nil {
		return err
	}
	if i.CNIPlugins == "" || i.CNIConfigurations == "" {
		return commandline.UsageError{Err: errors.New("install needs --cni-plugins and --cni-configurations")}
	}
	place, err := i.place()
	if err != nil {
		return err
	}
	if err := place.Install(); err != nil { // before it is asked for
		return err
	}
	return place.Chain()
}

type removeCmd struct {
	steering
	chaining
	File  string `default:"/run/selvage-kube/edge.yaml" placeholder:"FILE" help:"File of this node's edge; passwords are beside it."`
	State string `default:"${state}" placeholder:"DIR" help:"Folder of what the CNI plugin knows while there is no agent."`
}

// Run leaves nothing on the node.
func (r *removeCmd) Run(ctx context.Context) error {
	s, err := r.steerer(0, nil)
	if err != nil {
		return err
	}
	place, err := r.place()
	if err != nil {
		return err
	}
	return agent.Traces{Plugin: place, Files: hold.Files{Folder: r.State}, Steer: s, Passwords: agent.Passwords(r.File)}.Remove(ctx)
}

// isPlugin reports whether a runtime has called this program as a CNI plugin.
func isPlugin(program string) bool { return filepath.Base(program) == cni.Name }

// place is where this program is a CNI plugin.
func (c chaining) place() (cni.Place, error) {
	self, err := os.Executable()
	return cni.Place{Program: self, Plugins: c.CNIPlugins, Configurations: c.CNIConfigurations}, err
}
