package main

import (
	"context"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/kube/internal/commandline"
	"github.com/selvage/selvage/kube/internal/controller"
	"github.com/selvage/selvage/kube/internal/uninstall"
)

type uninstallCmd struct {
	Timeout time.Duration `default:"2m" help:"How long to wait for the agents of nodes that are ready."`
}

// Run has all nodes be without Selvage, and says where it could not.
func (u *uninstallCmd) Run(ctx context.Context, s *commandline.Streams) error {
	by, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	by.QPS = -1 // there may be thousands of nodes; the API server has its own bounds
	scheme, err := controller.Scheme()
	if err != nil {
		return err
	}
	c, err := client.New(by, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, u.Timeout)
	defer cancel()
	nodes, err := uninstall.Run(ctx, c)
	fmt.Fprintf(s.Out, "nothing is left on %d nodes\n", len(nodes.Left))
	for _, name := range nodes.NotReady {
		fmt.Fprintf(s.Out, "node %s is not ready, and keeps what is on it: run selvage-kube remove and selvage remove there\n", name)
	}
	return err
}
