package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EgressGateway is nodes by which pods leave, and the addresses that pods get there.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=selvage
// +kubebuilder:printcolumn:name=Mode,type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name=Nodes,type=string,JSONPath=`.status.serving`
// +kubebuilder:printcolumn:name=Used,type=integer,JSONPath=`.status.addresses.used`
// +kubebuilder:printcolumn:name=Total,type=integer,JSONPath=`.status.addresses.total`
// +kubebuilder:printcolumn:name=Serving,type=string,JSONPath=`.status.conditions[?(@.type=="Serving")].status`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type EgressGateway struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   EgressGatewaySpec   `json:"spec"`
	Status EgressGatewayStatus `json:"status,omitempty,omitzero"`
}

// EgressGatewaySpec is what a user wants of a gateway.
type EgressGatewaySpec struct {
	// nodes selects the nodes that translate, 16 at most. Those that are members stay first in the order of the group;
	// new ones come last.
	Nodes metav1.LabelSelector `json:"nodes"`

	// mode says whether one node at a time does all (ActiveStandby), or all nodes divide the addresses among
	// themselves (ActiveActive).
	// +kubebuilder:validation:Enum=ActiveStandby;ActiveActive
	// +kubebuilder:default=ActiveStandby
	// +optional
	Mode GatewayMode `json:"mode,omitempty"`

	// addresses are what policies may give to pods: addresses, ranges as in 192.0.2.10-192.0.2.20, and networks. Policies whose
	// address is of type Node need none.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	// +optional
	Addresses []AddressRange `json:"addresses,omitempty"`

	// uplink is where packets leave.
	Uplink Uplink `json:"uplink"`

	// liveness is how fast a gateway that is gone is noticed.
	// +kubebuilder:default={}
	// +optional
	Liveness Liveness `json:"liveness,omitempty,omitzero"`

	// replication has nodes tell each other of connections, so that these survive a failover.
	// +kubebuilder:validation:Enum=Enabled;Disabled
	// +kubebuilder:default=Enabled
	// +optional
	Replication Switch `json:"replication,omitempty"`
}

// GatewayMode is how the nodes of a gateway share work.
type GatewayMode string

// Modes of gateways.
const (
	ActiveStandby GatewayMode = "ActiveStandby"
	ActiveActive  GatewayMode = "ActiveActive"
)

// Switch is Enabled or Disabled.
type Switch string

// Values of a switch.
const (
	Enabled  Switch = "Enabled"
	Disabled Switch = "Disabled"
)

// AddressRange is an address, a range FIRST-LAST, or a network.
// +kubebuilder:validation:MaxLength=79
// +kubebuilder:validation:XValidation:rule="self.contains('-') ? self.split('-').size() == 2 && self.split('-').all(a, isIP(a)) : isIP(self) || isCIDR(self)",message="must be an address, a range FIRST-LAST, or a network"
type AddressRange string

// Network is a network of IPv4 or IPv6.
// +kubebuilder:validation:MaxLength=43
// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="must be a network without bits of a host, as in 192.0.2.0/24"
type Network string

// Uplink is an interface of each node of a gateway that the node itself needs not.
type Uplink struct {
	// interface is the name of the interface on every node. Its addresses become those of the uplink.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	Interface string `json:"interface"`

	// vlan is the VLAN of the interface.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4094
	// +optional
	VLAN uint16 `json:"vlan,omitempty"`

	// nextHops are the routers there.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=39
	// +kubebuilder:validation:XValidation:rule="self.all(a, isIP(a))",message="must be addresses"
	// +listType=set
	NextHops []string `json:"nextHops"`

	// bgp has nodes advertise addresses to routers, besides ARP and neighbour discovery. They need not be in a network of the
	// interface then.
	// +optional
	BGP *BGP `json:"bgp,omitempty"`
}

// Liveness is how nodes watch each other (BFD, RFC 5880).
type Liveness struct {
	// interval is the time between packets.
	// +kubebuilder:default="50ms"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10ms') && duration(self) <= duration('10s')",message="must be from 10ms to 10s"
	// +optional
	Interval metav1.Duration `json:"interval,omitempty,omitzero"`

	// multiplier is how many packets may be missing.
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=255
	// +optional
	Multiplier uint8 `json:"multiplier,omitempty"`
}

// EgressGatewayStatus is what became of it.
type EgressGatewayStatus struct {
	// observedGeneration is of the spec that this is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// nodes are the members of the group in its order.
	// +listType=map
	// +listMapKey=name
	// +optional
	Nodes []GatewayNode `json:"nodes,omitempty"`

	// serving is how many nodes of all serve, as in 2/3.
	// +optional
	Serving string `json:"serving,omitempty"`

	// addresses counts those of the spec.
	// +optional
	Addresses AddressUse `json:"addresses,omitempty"`

	// lastFailover is the last one that a node of the gateway reported.
	// +optional
	LastFailover *Failover `json:"lastFailover,omitempty"`

	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GatewayNode is a member of a gateway.
type GatewayNode struct {
	Name string `json:"name"`
	// state is as the edges see it: Serving, Draining, Gone or Unknown.
	// +kubebuilder:validation:Enum=Serving;Draining;Gone;Unknown
	State NodeState `json:"state"`
	// message says why.
	// +optional
	Message string `json:"message,omitempty"`
	// addresses are those that the node answers for.
	// +optional
	Addresses []string `json:"addresses,omitempty"`
	// ownAddresses are those of the node's uplink with which pods leave there now, of policies whose address is of type Node.
	// +optional
	OwnAddresses []string `json:"ownAddresses,omitempty"`
}

// NodeState is how a node of a gateway stands.
type NodeState string

// States of nodes.
const (
	Serving  NodeState = "Serving"
	Draining NodeState = "Draining"
	Gone     NodeState = "Gone"
	Unknown  NodeState = "Unknown"
)

// AddressUse counts addresses.
type AddressUse struct {
	Total int64 `json:"total"`
	Used  int64 `json:"used"`
}

// Failover is a change of a gateway's nodes as an edge saw it.
type Failover struct {
	// node is the one that changed.
	Node string `json:"node"`
	// change is from what to what, as in serving>gone.
	Change string `json:"change"`
	// seen is when the edge noticed.
	Seen metav1.MicroTime `json:"seen"`
	// writtenMicroseconds is how much later its tables were written.
	WrittenMicroseconds int64 `json:"writtenMicroseconds"`
	// announcedMicroseconds is how much later it told the network of the addresses that it took; -1 if it took none.
	AnnouncedMicroseconds int64 `json:"announcedMicroseconds"`
	// reportedBy is the node of the edge.
	ReportedBy string `json:"reportedBy"`
}

// EgressGatewayList is a list of gateways.
//
// +kubebuilder:object:root=true
type EgressGatewayList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EgressGateway `json:"items"`
}
