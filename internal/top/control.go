package top

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/observe"
)

func bgpPage() page {
	return page{
		name: "BGP", sort: -1, none: "The edge has no BGP: there is no spec.bgp in its configuration.",
		columns: []column{
			{title: "NEIGHBOUR"}, {title: "ADDRESS"}, {"AS", true}, {title: "STATE"}, {"FOR", true}, {title: "BFD"}, {"FLAPS", true},
			{title: "FAMILY"}, {"RECEIVED", true}, {"ADVERTISED", true}, {title: "WHY"},
		},
		read: readBGP,
	}
}

func readBGP(ctx context.Context, r *reader) ([]line, error) {
	status, err := r.client.Status(ctx)
	if err != nil || status.BGP == nil {
		return nil, err
	}
	info, err := r.client.BGP().Info(ctx)
	if err != nil {
		return nil, err
	}
	var lines []line
	for _, n := range info.Neighbours {
		families := n.Families
		if len(families) == 0 {
			families = []api.BGPFamilyInfo{{}}
		}
		for i, f := range families {
			lines = append(lines, neighbourLine(n, f, i == 0))
		}
	}
	return lines, nil
}

// neighbourLine is a session with one of its families; the first has what they share.
func neighbourLine(n api.BGPNeighbourInfo, f api.BGPFamilyInfo, first bool) line {
	l := line{key: n.Name + " " + string(f.Family), detail: n.Why}
	shared := []cell{{}, {}, {}, {}, {}, {}, {}}
	if first {
		flaps := countCell(uint64(n.Flaps))
		shared = []cell{
			{text: n.Name}, {text: n.Address.String()}, {text: fmt.Sprint(n.AS)}, stateCell(n.State), {text: observe.Span(n.Age), by: n.Age},
			stateCell(strings.TrimPrefix(n.Liveness, "off")), worse(flaps, warning),
		}
	}
	l.cells = append(shared, []cell{{text: cmp.Or(string(f.Family), "-")}, countCell(f.Received), countCell(f.Advertised), {text: cmp.Or(n.Why, "-"), tone: faint}}...)
	return l
}

func egressPage() page {
	return page{
		name: "Egress", sort: -1, none: "The edge is in no group of egress gateways.",
		columns: []column{{title: "WHAT"}, {title: "GROUP"}, {title: "GATEWAY"}, {title: "STATE"}, {"WHEN", true}, {"TOOK", true}, {title: "WHY"}},
		read:    readEgress,
	}
}

// readEgress has the gateways of each group, then the last failovers, the newest first.
func readEgress(ctx context.Context, r *reader) ([]line, error) {
	info, err := r.client.Egress().Info(ctx)
	if err != nil {
		return nil, err
	}
	var lines []line
	for _, g := range info.Groups {
		for _, m := range g.Members {
			name := cmp.Or(m.Name, m.Address.String())
			if m.Self {
				name += " (this edge)"
			}
			lines = append(lines, line{
				key: "gateway " + g.Name + " " + m.Address.String(),
				cells: []cell{
					{text: "gateway"}, {text: g.Name}, {text: name}, stateCell(m.State), ago(m.Since), {text: "-", tone: faint}, {text: cmp.Or(m.Why, "-"), tone: faint},
				},
				subject: subject{remote: m.Address}, detail: m.Why,
			})
		}
	}
	for _, f := range slices.Backward(info.Failovers) {
		took := f.Written.Sub(f.Seen)
		lines = append(lines, line{
			key: fmt.Sprintf("failover %d", f.Number),
			cells: []cell{
				{text: "failover"}, {text: f.Group}, {text: f.Gateway.String()}, stateCell(f.To), ago(f.Seen),
				{text: took.Round(time.Millisecond / 10).String(), by: took.Seconds()}, {text: cmp.Or(f.Why, "-"), tone: faint},
			},
			subject: subject{remote: f.Gateway},
			detail:  fmt.Sprintf("%s was %s; %d addresses came here; %s", f.Gateway, f.From, f.Addresses, f.Why),
		})
	}
	return lines, nil
}

// ago is how long something is past.
func ago(t time.Time) cell {
	if t.IsZero() {
		return cell{text: "-", tone: faint}
	}
	past := time.Since(t).Seconds()
	return cell{text: observe.Span(past), by: past}
}
