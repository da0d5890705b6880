package apiserver

import (
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/metrics"
)

const (
	// maxOwnerSeries is how many owners of a kind have series of their own. A collector pays for each series for ever.
	maxOwnerSeries = 256
	// otherOwners has the drops of those beyond.
	otherOwners = "other"
)

// ownerSeries are the drops of owners, with a series for each owner and reason that has drops. Who has series keeps them:
// the sum of the others never falls.
type ownerSeries struct {
	shown map[ownerKey]bool
	last  map[ownerReason]uint64 // of those that are not shown
	other map[ownerReason]uint64
}

type (
	ownerKey    struct{ kind, owner string }
	ownerReason struct{ kind, owner, reason string }
)

// metrics reads and shows them.
func (o *ownerSeries) metrics(e *State, p *metrics.Page) error {
	p.Family(metrics.Counter, "selvage_owner_drops_total", "Packets of a port, segment or remote that were dropped, by reason.")
	next := ownerSeries{map[ownerKey]bool{}, map[ownerReason]uint64{}, map[ownerReason]uint64{}}
	for _, kind := range ownerKinds {
		drops, err := e.DataPath.Drops.OwnerDrops(datapath.OwnerKind(kind))
		if err != nil {
			return err
		}
		o.take(kind, drops, &next, p)
	}
	*o = next
	return nil
}

// take shows the drops of owners of a kind.
func (o *ownerSeries) take(kind string, drops []datapath.OwnerDrop, next *ownerSeries, p *metrics.Page) {
	n := 0
	for _, d := range drops {
		if key := (ownerKey{kind, d.Owner}); d.Owner != "" && o.shown[key] && !next.shown[key] {
			next.shown[key] = true
			n++
		}
	}
	for key, sum := range o.other {
		if key.kind == kind {
			next.other[key] = sum
		}
	}
	for _, d := range drops {
		key := ownerKey{kind, d.Owner}
		switch {
		case d.Owner == "":
			continue
		case !next.shown[key] && n < maxOwnerSeries:
			next.shown[key] = true
			n++
		}
		if next.shown[key] {
			p.Count(d.Packets, "kind", kind, "owner", d.Owner, "reason", d.Reason)
			continue
		}
		at, sum := ownerReason{kind, d.Owner, d.Reason}, ownerReason{kind, otherOwners, d.Reason}
		next.last[at] = d.Packets
		if more := o.last[at]; d.Packets >= more {
			next.other[sum] += d.Packets - more
		} else { // another one has its number now
			next.other[sum] += d.Packets
		}
	}
	for key, sum := range next.other {
		if key.kind == kind {
			p.Count(sum, "kind", kind, "owner", otherOwners, "reason", key.reason)
		}
	}
}
