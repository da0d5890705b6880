package apiserver

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
)

func (d documents) fdb(v url.Values) (api.Entries[api.FDBEntry], error) {
	q, err := api.EntryQueryOf(v, api.ArgOrigin)
	if err != nil {
		return api.Entries[api.FDBEntry]{}, err
	}
	return read(d.o.Edge, "FDB", func(e *State) (api.Entries[api.FDBEntry], error) {
		entries, err := e.DataPath.Hosts.FDB()
		if err != nil {
			return api.Entries[api.FDBEntry]{}, err
		}
		return FDBEntries(entries, q), nil
	})
}

// FDBEntries are the entries of the FDB that a query chooses, by segment and MAC address.
func FDBEntries(entries []datapath.FDBEntry, q api.EntryQuery) api.Entries[api.FDBEntry] {
	list := []api.FDBEntry{}
	for i := range entries {
		f := &entries[i]
		if !choosesMAC(q, f) {
			continue
		}
		list = append(list, api.FDBEntry{
			Segment: f.Segment, MAC: f.MAC, Port: f.Port, Remote: f.Remote,
			Static: f.Static, Origin: string(f.Origin), Sticky: f.Sticky, Age: seconds(f.AgeNS), Moves: f.Moves,
			Frozen: f.Frozen.Seconds(), Other: f.Other,
		})
	}
	slices.SortFunc(list, func(a, b api.FDBEntry) int {
		return cmp.Or(cmp.Compare(a.Segment, b.Segment), slices.Compare(a.MAC[:], b.MAC[:]))
	})
	return limited(list, q.Limit)
}

// choosesMAC reports whether the query asks for an entry of the FDB.
func choosesMAC(q api.EntryQuery, f *datapath.FDBEntry) bool {
	return (q.Segment == "" || f.Segment == q.Segment) && (q.Port == "" || isPort(f.Port, q.Port)) && (!q.Remote.IsValid() || f.Remote == q.Remote) &&
		(q.MAC == overlay.MAC{} || f.MAC == q.MAC) && (q.Origin == "" || string(f.Origin) == q.Origin)
}

// limited leaves out what is behind a limit, if there is one.
func limited[T any](list []T, limit int) api.Entries[T] {
	entries := api.Entries[T]{List: list, Matched: len(list)}
	if limit > 0 && limit < len(list) {
		entries.List = list[:limit]
	}
	return entries
}

// isPort reports whether name is the port of a query, or one of its VLANs.
func isPort(name, wanted string) bool {
	vlan, isVLAN := strings.CutPrefix(name, wanted)
	return isVLAN && (vlan == "" || vlan[0] == '.')
}

func seconds(ns uint64) float64 { return time.Duration(ns).Seconds() }
