package controller

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/plan"
)

// passwords is what nodes say of those of a gateway's sessions, "" when nothing is the matter.
func (a *assessment) passwords(g *v1alpha1.EgressGateway) string {
	if !plan.NeedsPassword(g) {
		return ""
	}
	var list []string
	for _, n := range g.Status.Nodes {
		if report := a.reports[n.Name]; report != nil {
			if c := meta.FindStatusCondition(report.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonPassword {
				list = append(list, n.Name+": "+c.Message)
			}
		}
	}
	return some(list)
}
