package overlay

import "slices"

// Share gives len(before) buckets to want as evenly as they go: no two differ by
// more than one bucket. A bucket stays with its owner unless that is not wanted or
// has more than its share, so that of n owners one that goes moves its own buckets
// alone, and one that comes takes one n-th (resilient hashing). The zero value of T
// in before owns nothing. want has no duplicates; without any, the buckets are zero.
func Share[T comparable](before, want []T) []T { return ShareByWeight(before, want, nil) }

// ShareByWeight is Share by the weights of want. Each owner has one bucket at least, where there
// are enough. A weight below one, and one that is missing, count as one.
func ShareByWeight[T comparable](before, want []T, weights []int) []T {
	buckets := make([]T, len(before))
	if len(want) == 0 {
		return buckets
	}
	quota := quotas(before, want, weights)
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
func quotas[T comparable](before, want []T, weights []int) map[T]int {
	has := make(map[T]int, len(want))
	for _, owner := range before {
		has[owner]++
	}
	quota, rest := wholeQuotas(len(before), want, weights)
	whole := make(map[T]int, len(quota))
	for _, owner := range want {
		whole[owner] = quota[owner]
	}
	for _, owner := range want {
		if has[owner] > whole[owner] && rest > 0 {
			quota[owner]++
			rest--
		}
	}
	for _, owner := range want {
		if quota[owner] == whole[owner] && rest > 0 {
			quota[owner]++
			rest--
		}
	}
	return quota
}

// wholeQuotas rounds the parts down, but to one where there is one for each, and returns what is left.
func wholeQuotas[T comparable](buckets int, want []T, weights []int) (quota map[T]int, rest int) {
	weight := func(i int) int {
		if i < len(weights) {
			return max(1, weights[i])
		}
		return 1
	}
	sum := 0
	for i := range want {
		sum += weight(i)
	}
	quota, rest = make(map[T]int, len(want)), buckets
	for i, owner := range want {
		quota[owner] = buckets * weight(i) / sum
		if len(want) <= buckets {
			quota[owner] = max(1, quota[owner])
		}
		rest -= quota[owner]
	}
	for ; rest < 0; rest++ { // what has one for nothing takes it from who has most
		quota[slices.MaxFunc(want, func(a, b T) int { return quota[a] - quota[b] })]--
	}
	return quota, rest
}
