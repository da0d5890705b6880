package pathmtu

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// network is a path as a search sees it.
type network struct {
	mtu   int
	hint  func(size int) int // what its router says of a size that is too big; nil: nothing
	asked []int
}

func (n *network) ask(_ context.Context, size int) (verdict, int, error) {
	n.asked = append(n.asked, size)
	switch {
	case size <= n.mtu:
		return verdict{replied: true}, 1, nil
	case n.hint == nil:
		return verdict{}, maxTries, nil
	default:
		return verdict{nextMTU: n.hint(size)}, 1, nil
	}
}

func (n *network) search(t *testing.T, f family, ceiling int) *search {
	t.Helper()
	s := newSearch(f, ceiling, n.ask)
	if err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// Whatever routers say, the search ends at the largest size that passes.
func TestSearchFindsTheMTU(t *testing.T) {
	for name, hint := range map[string]func(mtu, size int) int{
		"silent":     nil,
		"honest":     func(mtu, _ int) int { return mtu },
		"no MTU":     func(int, int) int { return 0 },
		"too low":    func(mtu, _ int) int { return mtu - 7 },
		"too high":   func(_, size int) int { return size - 1 },
		"absurd":     func(_, size int) int { return size + 1000 },
		"tiny":       func(int, int) int { return 1 },
		"just floor": func(int, int) int { return 576 },
	} {
		for _, f := range []family{familyOf(us4), familyOf(us6)} {
			for _, ceiling := range []int{f.floor, 1280, 1281, 1500, 1501, 9000, maxPacket} {
				for _, mtu := range []int{0, f.floor - 1, f.floor, f.floor + 1, f.base - 1, f.base, 1281, 1399, 1400, 1499, 1500, 8999, 9000, maxPacket} {
					n := &network{mtu: mtu}
					if hint != nil {
						n.hint = func(size int) int { return hint(mtu, size) }
					}
					s := n.search(t, f, ceiling)
					want := min(mtu, ceiling)
					if mtu < f.floor {
						want = 0
					}
					if s.answered != want || s.packets >= maxPackets {
						t.Errorf("%s: MTU %d below ceiling %d: found %d with %d packets, asking %v", name, mtu, ceiling, s.answered, s.packets, n.asked)
					}
				}
			}
		}
	}
}

func TestSearchIsShort(t *testing.T) {
	for _, c := range []struct {
		name         string
		mtu, ceiling int
		hint         func(size int) int
		packets      int
	}{
		{"full MTU", 1500, 1500, nil, 2},
		{"full jumbo MTU", 9000, 9000, nil, 2},
		{"ceiling is the base", 1200, 1200, nil, 1},
		{"ceiling below the base", 1000, 1000, nil, 1},
		{"honest router", 1400, 1500, func(int) int { return 1400 }, 4},
		{"honest router below the base", 1000, 1500, func(int) int { return 1000 }, 4},
		{"unanswered", 0, 1500, nil, 6},
	} {
		n := &network{mtu: c.mtu, hint: c.hint}
		if s := n.search(t, familyOf(us4), c.ceiling); s.packets != c.packets {
			t.Errorf("%s: %d packets, asking %v, want %d", c.name, s.packets, n.asked, c.packets)
		}
	}
}

// A network that answers at random in the worst way does not keep a search going.
func TestSearchIsBounded(t *testing.T) {
	asked := 0
	s := newSearch(familyOf(us4), maxPacket, func(_ context.Context, size int) (verdict, int, error) {
		asked++
		return verdict{replied: asked == 1, nextMTU: size - 1}, maxTries, nil
	})
	if err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.answered != s.family.base || s.packets >= maxPackets+maxTries {
		t.Errorf("found %d with %d packets, want %d with less than %d", s.answered, s.packets, s.family.base, maxPackets+maxTries)
	}
}

func TestSearchReturnsErrors(t *testing.T) {
	unreachable := errors.New("unreachable")
	s := newSearch(familyOf(us4), 1500, func(_ context.Context, size int) (verdict, int, error) {
		if size == 1500 {
			return verdict{}, 1, unreachable
		}
		return verdict{replied: true}, 1, nil
	})
	if err := s.run(t.Context()); !errors.Is(err, unreachable) {
		t.Errorf("got %v, want %v", err, unreachable)
	}
}

// A confirmation takes one request while nothing changes, and otherwise ends where a search does, without
// the size that was just lost.
func TestSearchConfirms(t *testing.T) {
	for _, f := range []family{familyOf(us4), familyOf(us6)} {
		for _, size := range []int{f.floor, f.base, 1500, 9000} {
			for _, mtu := range []int{0, f.floor, f.base, 1400, 1499, 1500, 8999, 9000} {
				n := &network{mtu: mtu}
				s := newSearch(f, size, n.ask)
				if err := s.confirm(t.Context()); err != nil {
					t.Fatal(err)
				}
				if want := min(mtu, size); s.answered != want && size > f.floor {
					t.Errorf("%d confirmed of a path of %d: %d, want %d", size, mtu, s.answered, want)
				}
				if mtu >= size && len(n.asked) != 1 {
					t.Errorf("%d confirmed of a path of %d by %v", size, mtu, n.asked)
				}
				if last := len(n.asked) - 1; size > f.floor && last > 0 && slices.Contains(n.asked[1:last], size) {
					t.Errorf("%d is asked again before the end: %v", size, n.asked)
				}
			}
		}
	}
	n := &network{mtu: 1500}
	if s := newSearch(familyOf(us4), 9000, n.ask); s.confirm(t.Context()) != nil || !slices.Equal(n.asked, []int{9000, 1200, 1500, 1501, 9000}) {
		t.Errorf("a link of jumbo frames became one of 1500: asked %v", n.asked)
	}
	repaired := &network{mtu: 1400}
	s := newSearch(familyOf(us4), 1500, func(ctx context.Context, size int) (verdict, int, error) {
		if len(repaired.asked) == 5 {
			repaired.mtu = 1500
		}
		return repaired.ask(ctx, size)
	})
	if s.confirm(t.Context()) != nil || s.answered != 1500 {
		t.Errorf("a path that was repaired while it was searched has %d: asked %v", s.answered, repaired.asked)
	}
}
