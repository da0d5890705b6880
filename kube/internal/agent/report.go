package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/plan"
)

// Report is what the node's object says: was, with what was found.
func Report(node string, was v1alpha1.EgressNodeStatus, p plan.Plan, f Found) v1alpha1.EgressNodeStatus {
	s := *was.DeepCopy()
	s.Version = cmp.Or(f.Status.Version, was.Version)
	s.Policies, s.Gateways, s.UplinkAddresses = nil, nil, plan.Texts(p.Uplinks)
	for _, c := range p.Policies {
		s.Policies = append(s.Policies, v1alpha1.NodePolicy{
			Policy: c.Key, UID: c.UID, Generation: c.Generation, Pods: int32(c.Pods), Programmed: f.Failed == "" && f.Lacks[c.Key] == "", Message: cmp.Or(f.Lacks[c.Key], f.Failed),
			Reason: c.Reason,
		})
	}
	slices.SortFunc(s.Policies, func(a, b v1alpha1.NodePolicy) int { return strings.Compare(a.Policy, b.Policy) })
	for _, g := range f.Egress.Groups {
		if own := slices.IndexFunc(g.Members, func(m api.GatewayInfo) bool { return m.Self }); own >= 0 {
			n := gatewayOf(node, g, own, p, f.Egress)
			n.Message = strings.Join(append([]string{n.Message}, unestablished(f.BGP)...), "; ")
			s.Gateways = append(s.Gateways, n)
		}
	}
	slices.SortFunc(s.Gateways, func(a, b v1alpha1.NodeGateway) int { return strings.Compare(a.Gateway, b.Gateway) })
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Ready", Message: "the edge runs"}
	if f.Bypass != "" {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, v1alpha1.ReasonHostRouting, f.Bypass
	}
	if twin := p.Twin.String(); twin != "" {
		ready.Message += "; " + twin
	}
	if p.Unknown != "" {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, v1alpha1.ReasonNetworksUnknown, p.Unknown
	}
	if len(f.Conflicts) > 0 {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, v1alpha1.ReasonConflict, strings.Join(f.Conflicts, "; ")
	}
	if f.Failed != "" {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "Failed", f.Failed
	}
	if problem := p.Password.Problem; problem != "" {
		ready.Status, ready.Reason = metav1.ConditionFalse, v1alpha1.ReasonPassword
		if !p.Password.Missing { // else that is what failed
			ready.Message = strings.TrimSuffix(problem+"; the last password stays in force; "+f.Failed, "; ")
		}
	}
	meta.SetStatusCondition(&s.Conditions, ready)
	return s
}

// unestablished are the routers that do not hear of the node's addresses.
func unestablished(b api.BGPInfo) (list []string) {
	for _, n := range b.Neighbours {
		if n.State != "established" {
			list = append(list, fmt.Sprintf("there is no BGP session with %s", n.Address))
		}
	}
	return list
}

var states = map[string]v1alpha1.NodeState{"serving": v1alpha1.Serving, "draining": v1alpha1.Draining, "gone": v1alpha1.Gone}

// gatewayOf is a gateway as this member of it sees it.
func gatewayOf(node string, g api.GatewayGroupInfo, own int, p plan.Plan, info api.EgressInfo) v1alpha1.NodeGateway {
	n := v1alpha1.NodeGateway{Gateway: p.Gateways[g.Name], State: cmp.Or(states[g.Members[own].State], v1alpha1.Unknown), Message: g.Members[own].Why}
	for _, e := range info.Policies {
		for _, a := range e.Addresses {
			if e.Gateways == g.Name && a.Other != (overlay.MAC{}) {
				n.Message = strings.TrimPrefix(fmt.Sprintf("%s; the host with MAC address %s has %s too, and gets packets for it", n.Message, a.Other, a.Address), "; ")
			}
			switch {
			case e.Gateways != g.Name || !a.Here:
			case !e.UplinkAddress:
				n.Addresses = append(n.Addresses, a.Address.String())
			case a.Server == g.Members[own].Address: // policies have the same
				n.OwnAddresses = append(n.OwnAddresses, a.Address.String())
			}
		}
	}
	slices.Sort(n.Addresses)
	slices.Sort(n.OwnAddresses)
	n.OwnAddresses = slices.Compact(n.OwnAddresses)
	for i, m := range g.Members {
		if i != own {
			n.Others = append(n.Others, v1alpha1.GatewayNode{Name: cmp.Or(p.Remotes[m.Address], m.Name), State: cmp.Or(states[m.State], v1alpha1.Unknown), Message: m.Why})
		}
	}
	slices.SortFunc(n.Others, func(a, b v1alpha1.GatewayNode) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range info.Failovers {
		if f.Group != g.Name {
			continue
		}
		last := v1alpha1.Failover{
			Node: cmp.Or(p.Remotes[f.Gateway], f.Gateway.String()), Change: f.From + ">" + f.To, Seen: metav1.NewMicroTime(f.Seen.Truncate(time.Microsecond)), // as it is read back
			WrittenMicroseconds: f.Written.Sub(f.Seen).Microseconds(), AnnouncedMicroseconds: -1, ReportedBy: node,
		}
		if f.Announced != nil {
			last.AnnouncedMicroseconds = f.Announced.Sub(f.Seen).Microseconds()
		}
		n.LastFailover = &last
	}
	return n
}
