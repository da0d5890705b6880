package apiserver

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/datapath"
)

// The busiest of many connections are the first of all in order, whatever the limit and the
// order in which they come; many have the same bytes.
func TestBusiestConnections(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	all := make([]datapath.Session, 500)
	for i := range all {
		all[i].SrcPort, all[i].Orig.Bytes, all[i].Reply.Bytes = uint16(i), random.Uint64N(20), random.Uint64N(5)
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	want := slices.SortedFunc(slices.Values(all), func(a, b datapath.Session) int {
		return cmp.Or(cmp.Compare(b.Bytes(), a.Bytes()), cmp.Compare(a.SrcPort, b.SrcPort))
	})
	for _, limit := range []int{0, 1, 2, 7, 100, 499, 500, 1000} {
		busiest := busiestConnections[datapath.Session]{
			limit: limit, base: func(s *datapath.Session) *datapath.Connection { return &s.Connection }, order: sessionOrder,
		}
		for i := range all {
			busiest.add(&all[i])
			if limit > 0 && len(busiest.list) > 2*limit {
				t.Fatalf("limit %d: %d in memory", limit, len(busiest.list))
			}
		}
		n := limit
		if n == 0 {
			n = len(all)
		}
		if got := busiest.sorted(); !slices.Equal(got, want[:min(n, len(all))]) {
			t.Errorf("limit %d: %d connections, not the busiest", limit, len(got))
		}
	}
}
