package main

import (
	"context"
	"errors"
	"fmt"
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
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := cni.Install(self, i.CNIPlugins); err != nil { // before it is asked for
		return err
	}
	return cni.Chain(i.CNIConfigurations)
}

type removeCmd struct {
	steering
	chaining
	State string `default:"${state}" placeholder:"DIR" help:"Folder of what the CNI plugin knows while there is no agent."`
}

// Run leaves nothing on the node. Pods pass the plugin as soon as the first two are done.
func (r *removeCmd) Run(ctx context.Context) error {
	s, err := r.steerer(0, nil)
	if err != nil {
		return err
	}
	var errs []error
	if r.CNIConfigurations != "" {
		errs = append(errs, cni.Unchain(r.CNIConfigurations))
	}
	errs = append(errs, hold.Files{Folder: r.State}.Remove(), s.Remove(ctx))
	if r.CNIPlugins != "" {
		errs = append(errs, cni.Uninstall(r.CNIPlugins))
	}
	return errors.Join(errs...)
}

// isPlugin reports whether a runtime has called this program as a CNI plugin.
func isPlugin(program string) bool { return filepath.Base(program) == cni.Name }

// chain has the plugin be in the node's list, if it is on the node at all.
func (c chaining) chain() func() error {
	if c.CNIConfigurations == "" {
		return nil
	}
	return func() error {
		if err := cni.Chain(c.CNIConfigurations); err != nil {
			return fmt.Errorf("CNI plugin: %w", err)
		}
		return nil
	}
}
