package top

import (
	"cmp"
	"context"
	"net/netip"

	"github.com/selvage/selvage/internal/api"
)

func dropsPage() page {
	return page{
		name: "Drops", sort: 3, none: "Nothing was dropped.",
		columns: []column{{title: "REASON"}, {title: "OF"}, {title: "WHO"}, {"PKT/S", true}, {"PACKETS", true}, {title: "WHAT IT MEANS"}},
		read:    readDrops,
	}
}

// readDrops has a line for each reason, and below it in the order of reading one for each port, segment and remote.
func readDrops(ctx context.Context, r *reader) ([]line, error) {
	all, err := r.client.Drops(ctx)
	if err != nil {
		return nil, err
	}
	var lines []line
	for _, d := range all {
		if d.Packets > 0 {
			lines = append(lines, r.dropLine(d, "all", ""))
		}
	}
	for _, kind := range []string{"port", "segment", "remote"} {
		owners, err := r.client.OwnerDrops(ctx, kind)
		if err != nil {
			return nil, err
		}
		for _, o := range owners {
			if o.Owner != "" && o.Packets > 0 {
				lines = append(lines, r.dropLine(o.DropInfo, kind, o.Owner))
			}
		}
	}
	return lines, nil
}

func (r *reader) dropLine(d api.DropInfo, kind, owner string) line {
	key := d.Reason + " " + kind + " " + owner
	s := subject{reason: d.Reason}
	switch kind {
	case "port":
		s.port = owner
	case "segment":
		s.segment = owner
	case "remote":
		s.remote, _ = netip.ParseAddr(owner)
	}
	return line{
		key: key,
		cells: []cell{
			{text: d.Reason}, {text: kind}, {text: cmp.Or(owner, "-")},
			worse(r.rates.cell(key, d.Packets), bad), countCell(d.Packets), {text: d.Description, tone: faint},
		},
		subject: s, detail: d.Description,
	}
}
