package transit

import (
	"testing"
)

func TestCacheSize(t *testing.T) {
	for flows, want := range map[int]int{1: 0, 100000: 0, 100001: 262144, 1000000: 2097152} {
		if got := CacheSize(flows); got != want {
			t.Errorf("for %d flows %d entries, want %d", flows, got, want)
		}
	}
}
