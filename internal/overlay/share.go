package overlay

// Share gives len(before) buckets to want as evenly as they go: no two differ by
// more than one bucket. A bucket stays with its owner unless that is not wanted or
// has more than its share, so that of n owners one that goes moves its own buckets
// alone, and one that comes takes one n-th (resilient hashing). The zero value of T
// in before owns nothing. want has no duplicates; without any, the buckets are zero.
func Share[T comparable](before, want []T) []T {
	buckets := make([]T, len(before))
	if len(want) == 0 {
		return buckets
	}
	quota := quotas(before, want)
	var free []int
	for i, owner := range before {
		if quota[owner] > 0 {
			quota[owner]--
			buckets[i] = owner
			continue
		}
		free = append(free, i)
	}
	for len(free) > 0 {
		for _, owner := range want { // in turn, so that neighbouring buckets differ
			if quota[owner] > 0 {
				buckets[free[0]], free = owner, free[1:]
				quota[owner]--
			}
		}
	}
	return buckets
}

// quotas divides the buckets; what is left over goes to those who have it already.
func quotas[T comparable](before, want []T) map[T]int {
	has := make(map[T]int, len(want))
	for _, owner := range before {
		has[owner]++
	}
	each, rest := len(before)/len(want), len(before)%len(want)
	quota := make(map[T]int, len(want))
	for _, owner := range want {
		quota[owner] = each
		if has[owner] > each && rest > 0 {
			quota[owner]++
			rest--
		}
	}
	for _, owner := range want {
		if quota[owner] == each && rest > 0 {
			quota[owner]++
			rest--
		}
	}
	return quota
}
