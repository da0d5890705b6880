// Command kubectl-selvage is a plugin of kubectl: it says why a pod leaves the cluster with the address that it leaves with, what edges do
// with its packets, and what each stage of its way carries.
//
// The exit status is 0 when the pod leaves as its policy says, or as its node where none selects it, 1 when something keeps it from
// that or the question could not be answered, and 2 for wrong usage.
package main

import (
	"os"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/selvage/selvage/internal/program"
	"github.com/selvage/selvage/kube/internal/commandline"
	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/measure"
)

type commands struct {
	Why    whyCmd    `cmd:"" help:"Say why a pod leaves with the address that it leaves with."`
	Trace  traceCmd  `cmd:"" help:"Ask the edges what becomes of a packet of a pod. Nothing is sent."`
	Stages stagesCmd `cmd:"" help:"Measure the way of a pod in stages (node, pod, gateway, egress), and say whether a packet left with another address, and which stage loses."`

	commandline.Version
}

var self = commandline.Program{
	Name: "kubectl-selvage", Description: "Egress addresses of pods: why a pod has which. The exit status is 0 when the pod leaves as its policy says, " +
		"1 when something keeps it from that, which is printed, and 2 for wrong usage.",
}

func main() {
	// At a server that stages reaches by SSH, or in a namespace of this machine, this program is the lab's agent.
	measure.RunInstrument(os.Args[1:])
	agent.Run(os.Args[1:], program.Version(), nil)
	ctrl.SetLogger(logr.Discard())
	self.Main(&commands{})
}
