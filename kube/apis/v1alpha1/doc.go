// Package v1alpha1 are the kinds by which pods of a cluster leave it with fixed addresses.
//
// An EgressGateway is nodes that translate, and the addresses that they have for that. An EgressPolicy says which pods
// of its namespace leave by which gateway; a ClusterEgressPolicy says it for pods of several namespaces. An EgressNode is
// what the agent of a node reads back from its edge. Nobody writes to any of them while nothing changes.
//
// +groupName=selvage.dev
// +kubebuilder:object:generate=true
package v1alpha1
