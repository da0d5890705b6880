package plan

import (
	"cmp"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
)

// Places are where the firewall of e stands: at each port and member of a trunk, but no
// uplink.
func Places(e overlay.Edge) (places []policy.Place) {
	labels := make(map[string]map[string]string)
	for _, p := range e.Ports {
		labels[p.Name] = p.Labels
	}
	for _, a := range Attachments(e) {
		if a.Router != "" {
			continue
		}
		port := cmp.Or(a.Trunk, a.Name)
		places = append(places, policy.Place{Name: a.Name, Port: port, Segment: a.Segment, Labels: labels[port]})
	}
	return places
}
