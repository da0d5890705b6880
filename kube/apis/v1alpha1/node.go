package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EgressNode is what the agent of a node reads back from its edge. It has the node's name, and is written when something
// changed, never because time passed. Its spec is for who takes Selvage away from the node.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=selvage
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name=Version,type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name=Message,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type EgressNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   EgressNodeSpec   `json:"spec,omitempty,omitzero"`
	Status EgressNodeStatus `json:"status,omitempty,omitzero"`
}

// EgressNodeSpec is what a node's agent is to do, beside what policies and gateways say.
type EgressNodeSpec struct {
	// leave has the agent take away what leads pods of the node to its edge, and the CNI plugin, and do nothing more until it is false again. Condition Ready has reason Left then.
	// +optional
	Leave bool `json:"leave,omitempty"`
}

// EgressNodeStatus is how the edge of a node stands.
type EgressNodeStatus struct {
	// version is of the edge.
	// +optional
	Version string `json:"version,omitempty"`

	// policies are those that the node's tables have: of its pods, and of the gateways that it is a member of.
	// +listType=map
	// +listMapKey=policy
	// +optional
	Policies []NodePolicy `json:"policies,omitempty"`

	// gateways are those that the node is a member of.
	// +listType=map
	// +listMapKey=gateway
	// +optional
	Gateways []NodeGateway `json:"gateways,omitempty"`

	// uplinkAddresses are those of the node's interfaces that are uplinks of gateways that it is a member of, with the length of their networks.
	// No policy gets one of them.
	// +listType=set
	// +optional
	UplinkAddresses []string `json:"uplinkAddresses,omitempty"`

	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConditionReady is true when an edge runs on the node and has taken its configuration, and packets of pods can be led to it.
const ConditionReady = "Ready"

// Reasons of ConditionReady on a node whose spec says leave.
const (
	ReasonLeaving = "Leaving" // the message says what is in the way
	ReasonLeft    = "Left"    // nothing leads to the edge any more
)

// ReasonHostRouting is of ConditionReady where the CNI plugin forwards packets of pods past the node's routing, or does not say whether
// it does. No policy is programmed for pods of the node then.
const ReasonHostRouting = "HostRouting"

// ReasonNetworksUnknown is of ConditionReady where no network of pods is known, so that packets between pods would leave the cluster. Packets
// of pods that a policy selects are dropped, unless it has them leave by the node.
const ReasonNetworksUnknown = "NetworksUnknown"

// ReasonConflict is of ConditionReady where another program of the node uses a mark, rule, table, address or port of the agent. The message
// says which, and by what value of the chart to get out of its way. Pods that policies select do not leave from the node meanwhile.
const ReasonConflict = "Conflict"

// ReasonPassword is of ConditionReady, and of a gateway's ConditionAccepted, where a password of BGP cannot be used. The message names its
// Secret. What was in force before stays.
const ReasonPassword = "PasswordNotUsable"

// NodePolicy is a policy in the tables of a node.
type NodePolicy struct {
	// policy is NAMESPACE/NAME of an EgressPolicy, or NAME of a ClusterEgressPolicy.
	Policy string `json:"policy"`
	// uid is of the object.
	UID string `json:"uid"`
	// generation is of the spec that the tables have.
	Generation int64 `json:"generation"`
	// pods is how many of the node's pods are in the tables.
	Pods int32 `json:"pods"`
	// programmed is whether they have all that they should.
	Programmed bool `json:"programmed"`
	// message says what they have not.
	// +optional
	Message string `json:"message,omitempty"`
	// reason is TooManyPolicies where the node's edge, or that of a gateway's node, has as many policies as it takes.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// ReasonTooManyPolicies is a reason of NodePolicy, and of a policy's condition Programmed.
const ReasonTooManyPolicies = "TooManyPolicies"

// NodeGateway is a gateway as a member of it sees it.
type NodeGateway struct {
	Gateway string `json:"gateway"`
	// state is the node's own.
	State NodeState `json:"state"`
	// +optional
	Message string `json:"message,omitempty"`
	// addresses are those that the node answers for.
	// +optional
	Addresses []string `json:"addresses,omitempty"`
	// ownAddresses are those of the node's uplink with which pods leave there now, of policies whose address is of type Node.
	// +optional
	OwnAddresses []string `json:"ownAddresses,omitempty"`
	// others are the states of the other members, as the node sees them.
	// +listType=map
	// +listMapKey=name
	// +optional
	Others []GatewayNode `json:"others,omitempty"`
	// lastFailover is the last change that the node saw.
	// +optional
	LastFailover *Failover `json:"lastFailover,omitempty"`
}

// EgressNodeList is a list of nodes.
//
// +kubebuilder:object:root=true
type EgressNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EgressNode `json:"items"`
}
