package stats

// Balanced returns the order of the targets for each round, the same for the
// same arguments. Rounds come in mirror pairs (A B D C, then C D B A), so a
// drift that is linear over two rounds cancels, and the pairs make up a Williams
// design: over len(targets) rounds (twice as many for an odd number) every
// target takes every position and follows every other equally often.
// Fewer rounds keep as much of the balance as they can.
func Balanced[T any](targets []T, rounds int) [][]T {
	n := len(targets)
	if n == 0 || rounds <= 0 {
		return nil
	}
	first := williams(n)
	pairs := n // for an odd number, every shift and its mirror are needed
	if n%2 == 0 {
		pairs = n / 2 // for an even one, mirrors are shifts by n/2
	}
	orders := make([][]T, rounds)
	for r := range orders {
		shift := (r / 2) % pairs
		order := make([]T, n)
		for i, p := range first {
			at := i
			if r%2 == 1 {
				at = n - 1 - i
			}
			order[at] = targets[(p+shift)%n]
		}
		orders[r] = order
	}
	return orders
}

// williams is the generating row 0, 1, n-1, 2, n-2, …: the steps between its
// neighbours are all different modulo n (E. J. Williams, 1949).
func williams(n int) []int {
	row := make([]int, n)
	for i := range row {
		if i%2 == 1 {
			row[i] = (i + 1) / 2
		} else {
			row[i] = (n - i/2) % n
		}
	}
	return row
}
