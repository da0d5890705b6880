package top

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/selvage/selvage/internal/api"
)

func portsPage() page {
	return page{
		name: "Ports", sort: -1, none: "The edge has no ports.",
		columns: []column{
			{title: "PORT"}, {title: "INTERFACE"}, {title: "SEGMENT"}, {title: "STATE"},
			{"RX PKT/S", true}, {"RX BIT/S", true}, {"TX PKT/S", true}, {"TX BIT/S", true}, {"DROPS/S", true}, {"DROPS", true},
		},
		read: readPorts,
	}
}

func readPorts(ctx context.Context, r *reader) ([]line, error) {
	ports, err := r.client.Ports(ctx)
	if err != nil {
		return nil, err
	}
	lines := make([]line, 0, len(ports))
	for _, p := range ports {
		lines = append(lines, line{
			key: p.Name,
			cells: []cell{
				{text: p.Name}, {text: p.Interface}, {text: cmp.Or(p.Segment, "-")}, stateCell(p.State),
				r.rates.cell(p.Name+" rx", p.RxPackets), r.rates.bits(p.Name+" rxb", p.RxBytes),
				r.rates.cell(p.Name+" tx", p.TxPackets), r.rates.bits(p.Name+" txb", p.TxBytes),
				worse(r.rates.cell(p.Name+" drops", p.Drops), bad), countCell(p.Drops),
			},
			subject: subject{port: p.Name, segment: p.Segment},
			detail:  limitsDetail(p.Limits),
		})
	}
	return lines, nil
}

// limitsDetail are the limits that a port has met.
func limitsDetail(limits []api.LimitInfo) string {
	var met []string
	for _, l := range limits {
		if l.Exceeded > 0 {
			met = append(met, fmt.Sprintf("limit %s of %d was exceeded %d times (%s)", l.Limit, l.Max, l.Exceeded, l.Mode))
		}
	}
	return strings.Join(met, "; ")
}

// stateCell is a word for how something is.
func stateCell(state string) cell {
	c := cell{text: cmp.Or(state, "-")}
	switch state {
	case "up", "resolved", "established", "serving":
		c.tone = good
	case "unknown", "draining", "":
		c.tone = faint
	case "connect", "active", "opensent", "openconfirm", "unresolved":
		c.tone = warning
	default:
		c.tone = bad
	}
	return c
}

func remotesPage() page {
	return page{
		name: "Remotes", sort: -1, none: "The edge has no remotes.",
		columns: []column{
			{title: "REMOTE"}, {title: "NAME"}, {title: "PATH"}, {title: "STATE"}, {"MTU", true},
			{"RX PKT/S", true}, {"RX BIT/S", true}, {"TX PKT/S", true}, {"TX BIT/S", true}, {"SHARE", true},
		},
		read: readRemotes,
	}
}

// readRemotes has a line for each remote and, where there are several ways to it, one for each path.
func readRemotes(ctx context.Context, r *reader) ([]line, error) {
	teps, err := r.client.TEPs(ctx)
	if err != nil {
		return nil, err
	}
	var lines []line
	for _, t := range teps {
		of := subject{remote: t.Address}
		if len(t.Segments) > 0 {
			of.segment = t.Segments[0]
		}
		key := t.Address.String()
		lines = append(lines, line{
			key: key,
			cells: []cell{
				{text: key}, {text: cmp.Or(t.Name, "-")}, {text: wayOf(t.Interface, t.NextHop)}, stateCell(t.State), number(t.InnerMTU),
				r.rates.cell(key+" rx", t.RxPackets), r.rates.bits(key+" rxb", t.RxBytes),
				r.rates.cell(key+" tx", t.TxPackets), r.rates.bits(key+" txb", t.TxBytes), {text: "-", tone: faint},
			},
			subject: of,
			detail:  fmt.Sprintf("segments %s; path MTU %d (%s)", strings.Join(t.Segments, ", "), t.PathMTU, t.PathMTUState),
		})
		if len(t.Paths) < 2 && (len(t.Paths) == 0 || t.Paths[0].State == "up" || t.Paths[0].State == "unknown") {
			continue
		}
		for _, p := range t.Paths {
			lines = append(lines, r.pathLine(p, of))
		}
	}
	return lines, nil
}

func (r *reader) pathLine(p api.PathInfo, of subject) line {
	key := fmt.Sprintf("%s > %s by %s %s", p.Local, p.Remote, p.Interface, p.NextHop)
	share := cell{text: "-", tone: faint}
	if p.PacketShare != nil {
		share = cell{text: fmt.Sprintf("%.0f %%", 100**p.PacketShare), by: *p.PacketShare}
	}
	return line{
		key: key,
		cells: []cell{
			{text: "  " + p.Local.String(), tone: faint}, {text: "", tone: faint}, {text: wayOf(p.Interface, p.NextHop)}, stateCell(p.State), number(p.PathMTU),
			{text: "-", tone: faint}, {text: "-", tone: faint},
			r.rates.cell(key+" tx", p.TxPackets), r.rates.bits(key+" txb", p.TxBytes), share,
		},
		subject: of, detail: p.Why,
	}
}

func wayOf(device string, nextHop netip.Addr) string {
	if !nextHop.IsValid() {
		return cmp.Or(device, "-")
	}
	return fmt.Sprintf("%s via %s", device, nextHop)
}

func number(n int) cell {
	if n == 0 {
		return cell{text: "-", tone: faint}
	}
	return cell{text: fmt.Sprint(n), by: float64(n)}
}
