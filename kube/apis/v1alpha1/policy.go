package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EgressPolicy says which pods of its namespace leave the cluster by which gateway.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,categories=selvage
// +kubebuilder:printcolumn:name=Gateway,type=string,JSONPath=`.spec.gateway`
// +kubebuilder:printcolumn:name=Addresses,type=string,JSONPath=`.status.addressList`
// +kubebuilder:printcolumn:name=Pods,type=integer,JSONPath=`.status.pods`
// +kubebuilder:printcolumn:name=Nodes,type=string,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name=Programmed,type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type EgressPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   EgressPolicySpec   `json:"spec"`
	Status EgressPolicyStatus `json:"status,omitempty,omitzero"`
}

// ClusterEgressPolicy says which pods of several namespaces leave the cluster by which gateway.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=selvage
// +kubebuilder:printcolumn:name=Gateway,type=string,JSONPath=`.spec.gateway`
// +kubebuilder:printcolumn:name=Addresses,type=string,JSONPath=`.status.addressList`
// +kubebuilder:printcolumn:name=Pods,type=integer,JSONPath=`.status.pods`
// +kubebuilder:printcolumn:name=Nodes,type=string,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name=Programmed,type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterEgressPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterEgressPolicySpec `json:"spec"`
	Status EgressPolicyStatus      `json:"status,omitempty,omitzero"`
}

// ClusterEgressPolicySpec is an EgressPolicySpec with namespaces.
type ClusterEgressPolicySpec struct {
	// namespaces selects namespaces of pods; all when left out.
	// +optional
	Namespaces *metav1.LabelSelector `json:"namespaces,omitempty"`

	EgressPolicySpec `json:",inline"`
}

// EgressPolicySpec is what a user wants of a policy.
type EgressPolicySpec struct {
	// pods selects pods; all when left out. Pods in the network of their node are never selected.
	// +optional
	Pods *metav1.LabelSelector `json:"pods,omitempty"`

	// serviceAccounts are the names of those that pods run as, one of which has to be theirs; any when left out.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	ServiceAccounts []string `json:"serviceAccounts,omitempty"`

	// to are destinations outside the cluster; all when left out.
	// +kubebuilder:validation:MaxItems=256
	// +listType=set
	// +optional
	To []Network `json:"to,omitempty"`

	// except are destinations to which the pods go as without this policy, and without those after it.
	// +kubebuilder:validation:MaxItems=256
	// +listType=set
	// +optional
	Except []Network `json:"except,omitempty"`

	// gateway is the name of an EgressGateway.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Gateway string `json:"gateway"`

	// address says which addresses the pods get. They are this policy's alone, but those of nodes.
	// +kubebuilder:default={type: Pool}
	// +optional
	Address PolicyAddress `json:"address,omitempty,omitzero"`

	// priority orders policies: the lowest is asked first, and the first that matches decides. Of equal ones the order
	// is that of namespace and name, cluster policies last.
	// +kubebuilder:default=1000
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Priority *int32 `json:"priority,omitempty"`

	// whenNoGateway says what becomes of packets while no node of the gateway serves: Drop, or Node: they leave by
	// the pod's node, as without this policy.
	// +kubebuilder:validation:Enum=Drop;Node
	// +kubebuilder:default=Drop
	// +optional
	WhenNoGateway NoGateway `json:"whenNoGateway,omitempty"`

	// mapping is how ports are translated (RFC 4787 section 4.1).
	// +kubebuilder:validation:Enum=AddressAndPortDependent;EndpointIndependent
	// +kubebuilder:default=AddressAndPortDependent
	// +optional
	Mapping Mapping `json:"mapping,omitempty"`

	// limit is how many NAT sessions a pod may have; 0 is without limit. When left out, a sixteenth of the table.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16777216
	// +optional
	Limit *int32 `json:"limit,omitempty"`
}

// PolicyAddress says which addresses pods of a policy get.
//
// +kubebuilder:validation:XValidation:rule="has(self.fixed) == (self.type == 'Fixed') && (self.type == 'Pool' || !has(self.count))",message="fixed addresses are given with type Fixed, and only then; count only with type Pool"
type PolicyAddress struct {
	// type is Pool: the controller chooses among the gateway's addresses; Fixed: these; or Node: that of the uplink of the gateway's
	// node that serves the pod, of each family of which the gateway has a next hop. Connections end there with the node.
	// +kubebuilder:validation:Enum=Pool;Fixed;Node
	Type AddressType `json:"type"`

	// count is how many addresses of each family the gateway has are taken from the pool; 1 when left out.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	// +optional
	Count int32 `json:"count,omitempty"`

	// fixed are addresses of the gateway.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=39
	// +kubebuilder:validation:XValidation:rule="self.all(a, isIP(a))",message="must be addresses"
	// +listType=set
	// +optional
	Fixed []string `json:"fixed,omitempty"`
}

// AddressType is where the addresses of a policy come from.
type AddressType string

// Types of addresses.
const (
	AddressPool  AddressType = "Pool"
	AddressFixed AddressType = "Fixed"
	AddressNode  AddressType = "Node"
)

// NoGateway is what becomes of packets without a gateway.
type NoGateway string

// What becomes of packets without a gateway.
const (
	NoGatewayDrop NoGateway = "Drop"
	NoGatewayNode NoGateway = "Node"
)

// Mapping is how ports are translated.
type Mapping string

// Mappings of RFC 4787.
const (
	AddressAndPortDependent Mapping = "AddressAndPortDependent"
	EndpointIndependent     Mapping = "EndpointIndependent"
)

// EgressPolicyStatus is what became of a policy.
type EgressPolicyStatus struct {
	// observedGeneration is of the spec that this is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// addresses are those of the policy. They stay while the gateway has them and the policy wants as many.
	// +listType=set
	// +optional
	Addresses []string `json:"addresses,omitempty"`

	// addressList is addresses for people, or Node.
	// +optional
	AddressList string `json:"addressList,omitempty"`

	// vni is the policy's segment on the way to a gateway. It stays.
	// +optional
	VNI int32 `json:"vni,omitempty"`

	// pods is how many pods the policy selects.
	// +optional
	Pods int32 `json:"pods,omitempty"`

	// nodes is on how many nodes, of those that need it, tables have this generation, as in 12/12.
	// +optional
	Nodes string `json:"nodes,omitempty"`

	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Conditions of policies and gateways.
const (
	// ConditionAccepted is true when the object can be carried out.
	ConditionAccepted = "Accepted"
	// ConditionProgrammed is true when the tables of all edges that need it have it, as read back from them.
	ConditionProgrammed = "Programmed"
	// ConditionServing is true when a node translates.
	ConditionServing = "Serving"
)

// EgressPolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type EgressPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EgressPolicy `json:"items"`
}

// ClusterEgressPolicyList is a list of cluster policies.
//
// +kubebuilder:object:root=true
type ClusterEgressPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterEgressPolicy `json:"items"`
}
