package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of these kinds.
var GroupVersion = schema.GroupVersion{Group: "selvage.dev", Version: "v1alpha1"}

// AddToScheme makes the kinds known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&EgressGateway{}, &EgressGatewayList{}, &EgressPolicy{}, &EgressPolicyList{},
		&ClusterEgressPolicy{}, &ClusterEgressPolicyList{}, &EgressNode{}, &EgressNodeList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
