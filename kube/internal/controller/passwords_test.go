package controller

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// A gateway says which node cannot use which password, as long as its sessions need one.
func TestGatewayPasswords(t *testing.T) {
	o := world()
	g := &o.Gateways[0]
	g.Spec.Uplink.BGP = &v1alpha1.BGP{AS: 65010, Neighbours: []v1alpha1.BGPNeighbour{{Address: "198.51.100.1", AS: 65100, PasswordSecret: v1alpha1.SecretKey{Name: "routers", Key: "password"}}}}
	n := v1alpha1.EgressNode{ObjectMeta: metav1.ObjectMeta{Name: "gw-1"}, Status: v1alpha1.EgressNodeStatus{Conditions: []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPassword, Message: "Secret s/routers: there is none",
	}}}}
	o.EgressNodes = []v1alpha1.EgressNode{n}
	Assess(o)
	again(t, o)
	says(t, g.Status.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionFalse, "gw-1: Secret s/routers: there is none")
	if r := g.Status.Conditions[0].Reason; r != v1alpha1.ReasonPassword {
		t.Errorf("the reason is %s", r)
	}
	o.EgressNodes[0].Status.Conditions[0].Reason = "Failed"
	Assess(o)
	again(t, o)
	says(t, g.Status.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionTrue, "")
	o.EgressNodes[0].Status.Conditions[0].Reason = v1alpha1.ReasonPassword
	g.Spec.Uplink.BGP.Neighbours[0].PasswordSecret = v1alpha1.SecretKey{}
	Assess(o)
	again(t, o)
	says(t, g.Status.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionTrue, "")
}
