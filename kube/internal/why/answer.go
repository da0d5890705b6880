// Package why says why a pod leaves the cluster with the address that it leaves with. It is a pure function of objects that the API
// server has: of what packets do it knows what agents have reported.
package why

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Way is what becomes of packets.
type Way string

// Ways of packets.
const (
	ByGateway Way = "Gateway" // they leave with addresses of a policy
	ByNode    Way = "Node"    // they leave as the pod's node, by the CNI plugin's own masquerade
	Direct    Way = "Direct"  // they stay in the cluster, with the pod's address
	Dropped   Way = "Dropped"
	NoWay     Way = "None" // the pod sends none
)

// Answer is why. Its JSON is for programs: fields stay, and new ones may come.
type Answer struct {
	Summary     string `json:"summary"`
	Pod         Pod    `json:"pod"`
	Destination string `json:"destination,omitempty"`
	Way         Way    `json:"way"`
	// Steered reports whether the pod's node leads its packets to the edge. What it does not drops or leaves there, as Way says.
	Steered bool `json:"steered"`
	// Addresses are those with one of which the pod leaves by a gateway.
	Addresses []string `json:"addresses,omitempty"`
	// Policy is the one that decides, nil when none does.
	Policy *Policy `json:"policy,omitempty"`
	// Others are the other policies that select the pod, in the order in which they are asked.
	Others  []Other  `json:"others,omitempty"`
	Gateway *Gateway `json:"gateway,omitempty"`
	Node    *Node    `json:"node,omitempty"`
	// Notes are what somebody who asks should know, and does not keep the pod from leaving as its policy says.
	Notes []string `json:"notes"`
	// Problems are what keeps it from that, or might.
	Problems []string `json:"problems"`
}

// Pod is who leaves.
type Pod struct {
	Namespace   string   `json:"namespace"`
	Name        string   `json:"name"`
	Node        string   `json:"node,omitempty"`
	Addresses   []string `json:"addresses"`
	HostNetwork bool     `json:"hostNetwork,omitempty"`
	Phase       string   `json:"phase,omitempty"`
}

// Policy is the one that decides.
type Policy struct {
	Kind          string             `json:"kind"`
	Key           string             `json:"key"` // NAMESPACE/NAME or NAME
	Priority      int32              `json:"priority"`
	Generation    int64              `json:"generation"`
	Accepted      bool               `json:"accepted"`
	To            []string           `json:"to,omitempty"`
	Except        []string           `json:"except,omitempty"`
	Excepts       bool               `json:"excepts,omitempty"` // the destination
	AddressType   string             `json:"addressType"`
	Addresses     []string           `json:"addresses"` // none where those of nodes are taken
	WhenNoGateway string             `json:"whenNoGateway"`
	Conditions    []metav1.Condition `json:"conditions"`
}

// Other is a policy that selects the pod, and does not decide.
type Other struct {
	Kind     string `json:"kind"`
	Key      string `json:"key"`
	Priority int32  `json:"priority"`
	Earlier  bool   `json:"earlier,omitempty"` // it is asked before the one that decides
	Why      string `json:"why"`
}

// Gateway is that of the policy.
type Gateway struct {
	Name         string        `json:"name"`
	Mode         string        `json:"mode"`
	Serving      int           `json:"serving"`
	Nodes        []GatewayNode `json:"nodes"`
	LastFailover *Failover     `json:"lastFailover,omitempty"`
}

// GatewayNode is a member.
type GatewayNode struct {
	Name      string   `json:"name"`
	State     string   `json:"state"`
	Message   string   `json:"message,omitempty"`
	Addresses []string `json:"addresses,omitempty"` // of the policy, for which it answers; or its own, with which pods leave there now
	Lacks     string   `json:"lacks,omitempty"`     // what its tables lack of the policy
}

// Failover is the last change of the gateway's nodes.
type Failover struct {
	Node                  string           `json:"node"`
	Change                string           `json:"change"`
	Seen                  metav1.MicroTime `json:"seen"`
	WrittenMicroseconds   int64            `json:"writtenMicroseconds"`
	AnnouncedMicroseconds int64            `json:"announcedMicroseconds"`
	ReportedBy            string           `json:"reportedBy"`
}

// Node is the pod's.
type Node struct {
	Name       string `json:"name"`
	Programmed bool   `json:"programmed"` // its tables have the policy, with all of its pods
	Lacks      string `json:"lacks,omitempty"`
	Pods       int32  `json:"pods"` // of the policy, in the tables
}

// Names are those of the policy, the first "" where it is of the cluster.
func (p *Policy) Names() (namespace, name string) {
	if namespace, name, is := strings.Cut(p.Key, "/"); is {
		return namespace, name
	}
	return "", p.Key
}
