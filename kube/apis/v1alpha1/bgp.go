package v1alpha1

// BGP is how nodes of a gateway advertise the addresses that they answer for (RFC 4271), each as a route of its own with the
// node's uplink as the next hop. Nodes learn no routes by it.
type BGP struct {
	// as is the autonomous system of the nodes.
	AS ASNumber `json:"as"`

	// neighbours are the routers that are told. A node has sessions with those in a network of its interface, and with all
	// that have ebgpMultihop.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=address
	Neighbours []BGPNeighbour `json:"neighbours"`
}

// ASNumber is the number of an autonomous system.
// +kubebuilder:validation:Minimum=1
// +kubebuilder:validation:Maximum=4294967294
// +kubebuilder:validation:XValidation:rule="self != 23456 && self != 65535",message="must not be 23456 (RFC 6793) or 65535 (RFC 7300)"
type ASNumber int64

// BGPNeighbour is a router.
type BGPNeighbour struct {
	// address is the router's. In a network of the interface a node needs a second address there: the highest is that of
	// the session, and all others are the uplink's.
	// +kubebuilder:validation:MaxLength=39
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).isGlobalUnicast()",message="must be the unicast address of a router, and not one of a link alone"
	Address string `json:"address"`

	// as is the router's autonomous system.
	AS ASNumber `json:"as"`

	// ebgpMultihop is how many links away a router is at most that is in no network of the interface. The session runs as
	// the node routes to it.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=255
	// +optional
	EBGPMultihop uint8 `json:"ebgpMultihop,omitempty"`

	// bfd ends the session when the router does not answer to BFD either (RFC 5882), with the gateway's liveness.
	// The router does the same for the node, so that a node that is gone is noticed before the hold time of 9s.
	// +kubebuilder:validation:Enum=Enabled;Disabled
	// +kubebuilder:default=Disabled
	// +optional
	BFD Switch `json:"bfd,omitempty"`

	// passwordSecret is where the password of the session is (TCP MD5, RFC 2385): a Secret in the namespace of Selvage's release, which
	// bgp.passwordSecrets of the chart's values has to name. The password has 1 to 80 bytes, in one line.
	// +optional
	PasswordSecret SecretKey `json:"passwordSecret,omitempty,omitzero"`
}

// SecretKey is a value in a Secret.
type SecretKey struct {
	// name is the Secret's.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// key is the value's.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	// +kubebuilder:default=password
	// +optional
	Key string `json:"key,omitempty"`
}

// String is NAME/KEY.
func (k SecretKey) String() string { return k.Name + "/" + k.Key }
