package config

import (
	"fmt"
	"strings"
)

// suggest returns a hint that names the candidate that word most likely meant,
// else lists all of them; noun says what they are.
func suggest(word string, candidates []string, noun string) string {
	best := nearest(word, candidates)
	switch {
	case best != "":
		return fmt.Sprintf("did you mean %q?", best)
	case len(candidates) == 0:
		return "there are no " + noun
	case len(candidates) > 16:
		return fmt.Sprintf("there are %d %s, none like it", len(candidates), noun)
	}
	return noun + ": " + strings.Join(candidates, ", ")
}

// nearest returns the candidate that is one or two slips away from word, or "".
func nearest(word string, candidates []string) string {
	best, least := "", 1+max(1, min(2, len(word)/2))
	for _, c := range candidates {
		if n := distance(strings.ToLower(word), strings.ToLower(c)); n < least {
			best, least = c, n
		}
	}
	return best
}

// distance is the number of insertions, deletions, substitutions and swaps of
// neighbours between two words (optimal string alignment). Words that are too
// long to be a slip of the finger are simply far apart.
func distance(a, b string) int {
	const longest = 64
	if len(a) > longest || len(b) > longest {
		return longest
	}
	var before, above, row [longest + 1]int
	for j := range row {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above = above, row
	}
	return above[len(b)]
}

// suggester bounds the work for files that have the same mistake a hundred thousand times.
type suggester struct {
	compared int // names with one that is misspelled
}

func (s *suggester) suggest(word string, n nameSet, noun string) string {
	const most = 1e6
	if s.compared += 1 + len(n.list); s.compared > most {
		return fmt.Sprintf("there are %d %s", len(n.list), noun)
	}
	return suggest(word, n.list, noun)
}
