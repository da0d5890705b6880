package overlay

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func count(buckets []int) map[int]int {
	counts := map[int]int{}
	for _, owner := range buckets {
		counts[owner]++
	}
	return counts
}

// Whatever comes and goes, the shares differ by one at most, an owner that goes
// moves its own buckets alone, and one that comes takes buckets for itself alone.
func TestShareIsEvenAndResilient(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{64, 128} {
		buckets, owners := make([]int, size), []int{1}
		buckets = Share(buckets, owners)
		for range 2000 {
			after := slices.Clone(owners)
			gone, come := 0, 0
			if at := chance.IntN(len(owners)); len(owners) > 1 && (chance.IntN(2) == 0 || len(owners) == 20) {
				gone = after[at]
				after = slices.Delete(after, at, at+1)
			} else {
				for come = 1; slices.Contains(after, come); come++ {
				}
				after = slices.Insert(after, at, come)
			}
			next := Share(buckets, after)
			for i := range next {
				if next[i] != buckets[i] && buckets[i] != gone && next[i] != come {
					t.Fatalf("%v to %v: bucket %d moves from %d to %d", owners, after, i, buckets[i], next[i])
				}
			}
			counts := count(next)
			for _, owner := range after {
				if n := counts[owner]; n < size/len(after) || n > (size+len(after)-1)/len(after) {
					t.Fatalf("%d of %d buckets for one of %d", n, size, len(after))
				}
			}
			buckets, owners = next, after
		}
	}
}

func TestShareOfNothing(t *testing.T) {
	if got := Share([]int{1, 2, 1}, nil); !slices.Equal(got, []int{0, 0, 0}) {
		t.Errorf("nobody has %v", got)
	}
	if got := Share(make([]int, 4), []int{7, 8}); !slices.Equal(got, []int{7, 8, 7, 8}) {
		t.Errorf("two have %v, want them in turn", got)
	}
	if got := Share(make([]int, 2), []int{5, 6, 7}); !slices.Equal(got, []int{5, 6}) {
		t.Errorf("three have %v", got)
	}
}

// Shares follow the weights, whoever had the buckets before, and the least weight has some.
func TestShareByWeight(t *testing.T) {
	for _, c := range []struct {
		weights []int
		want    map[int]int
	}{
		{[]int{1, 3}, map[int]int{1: 16, 2: 48}},
		{[]int{1, 1, 2}, map[int]int{1: 16, 2: 16, 3: 32}},
		{[]int{1, 255}, map[int]int{1: 1, 2: 63}},
		{[]int{0, 1}, map[int]int{1: 32, 2: 32}},
	} {
		owners := []int{1, 2, 3}[:len(c.weights)]
		for _, before := range [][]int{make([]int, 64), Share(make([]int, 64), []int{1, 2, 3, 4})} {
			got := count(ShareByWeight(before, owners, c.weights))
			for owner, n := range c.want {
				if d := got[owner] - n; d < -1 || d > 1 {
					t.Errorf("weights %v: %v, want about %v", c.weights, got, c.want)
				}
			}
			if got[0] > 0 {
				t.Errorf("weights %v: %d buckets without an owner", c.weights, got[0])
			}
		}
	}
}
