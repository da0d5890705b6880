package host

import (
	"errors"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
)

// What one of the interrupted listings lacks is not gone.
func TestGather(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name     string
		listings [][]int
		err      error // of the last
		want     []int
	}{
		{"at once", [][]int{{1, 2}}, nil, []int{1, 2}},
		{"complete in the end", [][]int{{1}, {1, 2, 3}}, nil, []int{1, 2, 3}},
		{"never complete", [][]int{{1}, {2}, {3}, {1, 3}, {2, 3}}, netlink.ErrDumpInterrupted, []int{1, 2, 3, 1, 3, 2, 3}},
		{"broken", [][]int{{1}, nil}, broken, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := 0
			got, err := gather(func() ([]int, error) {
				calls++
				if calls == len(c.listings) {
					return c.listings[calls-1], c.err
				}
				return c.listings[calls-1], netlink.ErrDumpInterrupted
			})
			if !slices.Equal(got, c.want) || errors.Is(err, broken) != errors.Is(c.err, broken) || calls != len(c.listings) {
				t.Errorf("%v (%v) after %d listings, want %v", got, err, calls, c.want)
			}
		})
	}
}
