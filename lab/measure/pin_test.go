package measure

import "testing"

// Pins are cores that are usable, whatever their numbers.
func TestPins(t *testing.T) {
	for _, c := range []struct {
		usable      []int
		apart, last Pin
	}{
		{[]int{0, 2, 4, 6}, Pin{0, 2}, Pin{6, 6}},
		{[]int{3, 70}, Pin{3, 70}, Pin{70, 70}},
		{[]int{1}, Pin{1, 1}, Pin{1, 1}},
	} {
		if a, s := apart(c.usable), spread(c.usable, 3); a != c.apart || s != c.last {
			t.Errorf("%v: apart %v, the fourth pair %v", c.usable, a, s)
		}
	}
}
