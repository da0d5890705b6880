package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/kube/chart"
	"github.com/selvage/selvage/kube/internal/check"
	"github.com/selvage/selvage/kube/internal/commandline"
	"github.com/selvage/selvage/kube/internal/controller"
)

type checkCmd struct {
	Namespace string        `required:"" placeholder:"NAMESPACE" help:"Namespace of the installation."`
	Agents    string        `required:"" placeholder:"NAME" help:"DaemonSet of the agents."`
	Lease     string        `default:"${lease}" placeholder:"NAME" help:"Lease of the controllers."`
	Timeout   time.Duration `default:"1m" help:"How long to wait until nothing is wrong."`
}

// Run says what is wrong, kinds that are too old at once, or which controller works and how many nodes are ready.
func (c *checkCmd) Run(ctx context.Context, s *commandline.Streams) error {
	by, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	scheme, err := controller.Scheme()
	if err != nil {
		return err
	}
	reader, err := client.New(by, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	older := chart.Older(ctx, by)
	seen, err := check.Wait(ctx, reader, check.Installation{Namespace: c.Namespace, Lease: c.Lease, Agents: c.Agents})
	if err = errors.Join(older, err); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "controller %s holds the lease; %d nodes are ready: %v\n", seen.Controller(), len(seen.Nodes()), seen.Nodes())
	return err
}
