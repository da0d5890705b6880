// Package stages measures the way of a pod to the outside in stages, as the EgressGateway study did: node to node, pod to the gateway's
// node, the gateway's node to a server outside, and pod to that server.
//
// Its one invariant: what a stage costs is against the stage below it in the same round, and a source address is what the server itself
// saw. It changes nothing of the cluster. Do not use it for networks that the lab builds; that is lab/experiment/egress.
package stages

import (
	"context"
	"encoding/json"
	"net/netip"
	"time"

	"github.com/selvage/selvage/lab/measure"
)

// Names of stages, in the order in which they are looked at.
const (
	Node    = "node"    // the pod's node to the gateway's node, in the nodes' network
	Pod     = "pod"     // the pod to the gateway's node, by the CNI plugin
	Gateway = "gateway" // the gateway's node to the server outside
	Egress  = "egress"  // the pod to the server outside, by the edges and the gateway
)

// Roles of places.
const (
	OfPod     = "pod"
	OfNode    = "node"
	OfGateway = "gateway"
	OfServer  = "server"
)

// Stage is a way that is measured.
type Stage struct {
	Name     string
	From, To string     // roles
	Addr     netip.Addr // of To, as From reaches it
}

// below are the stages whose slower one a stage is compared with.
func below(name string) []string {
	switch name {
	case Pod:
		return []string{Node}
	case Egress:
		return []string{Node, Gateway}
	}
	return nil
}

// List are the stages that there are: without a server outside only those within the cluster, and on the gateway's own node only those
// that leave it.
func List(oneNode bool, gateway, server netip.Addr) (list []Stage) {
	if !oneNode {
		list = append(list, Stage{Node, OfNode, OfGateway, gateway}, Stage{Pod, OfPod, OfGateway, gateway})
	}
	if server.IsValid() {
		list = append(list, Stage{Gateway, OfGateway, OfServer, server}, Stage{Egress, OfPod, OfServer, server})
	}
	return list
}

// Instrument runs the two ends of an instrument on a stage, and is what they print.
type Instrument func(ctx context.Context, s Stage, role measure.Role) (client, server json.RawMessage, err error)

// Options are of a run.
type Options struct {
	Rounds   int
	Slice    time.Duration // of each instrument
	Port     int
	Rate     int64 // most bits a second of a transfer; 0 is no limit
	LossRate int64 // bits a second of the datagrams whose loss is counted
}
