package offload

import (
	"cmp"
	"fmt"
	"slices"
)

const (
	// lossLimit is the share of what is sent without haste that may be missing, or come
	// twice: networks lose a little.
	lossLimit = 0.01
	// leastGain is by how much a mode must be faster to be worth a change.
	leastGain = 1.05
)

// Fault says what is wrong with the trial's mode, "" if nothing is.
func (t Trial) Fault() string {
	switch {
	case t.Corrupt > 0:
		return fmt.Sprintf("%d frames arrived damaged", t.Corrupt)
	case t.loses():
		return fmt.Sprintf("%d of %d packets did not arrive", t.Missing, t.Sent)
	case t.Duplicates > t.tolerated():
		return fmt.Sprintf("%d of %d packets arrived twice", t.Duplicates, t.Sent)
	case len(t.Speeds) == 0 || t.median() == 0:
		return "it was not timed"
	}
	return ""
}

// tolerated is how many packets may be missing, or come twice.
func (t Trial) tolerated() int { return int(float64(t.Sent) * lossLimit) }

func (t Trial) loses() bool { return t.Missing > t.tolerated() }

func (t Trial) median() float64 {
	s := slices.Sorted(slices.Values(t.Speeds))
	n := len(s)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}

// faster reports whether every burst of t was faster than every one of other, and the
// medians are further apart than is worth a change.
func (t Trial) faster(other Trial) bool {
	return slices.Min(t.Speeds) > slices.Max(other.Speeds) && t.median() >= leastGain*other.median()
}

// Decide chooses one of the trials' modes, of which the first is AsIs, and says why. wrong
// means that no mode is right.
func Decide(trials []Trial) (mode Mode, why string, wrong bool) {
	asIs := trials[0]
	var right []Trial
	for _, t := range trials {
		if t.Fault() == "" {
			right = append(right, t)
		}
	}
	fault := asIs.Fault()
	switch {
	case len(right) == 0 && len(trials) == 1:
		return asIs.Mode, fault + ", and no offload of the interface can be changed", true
	case len(right) == 0:
		return asIs.Mode, fmt.Sprintf("%s, and no other mode is right either: look for the fault on the way, not in offloads", fault), true
	case len(trials) == 1:
		return asIs.Mode, fmt.Sprintf("right at %s; no offload of the interface can be changed", rate(asIs.median())), false
	case fault != "":
		best := best(right)
		return best.Mode, fmt.Sprintf("as it is %s; this is right at %s", fault, rate(best.median())), false
	}
	best := best(right)
	if best.Mode.Name != asIs.Mode.Name && best.faster(asIs) {
		return best.Mode, fmt.Sprintf("right, and %s instead of %s as it is", rate(best.median()), rate(asIs.median())), false
	}
	return asIs.Mode, fmt.Sprintf("right at %s; %s", rate(asIs.median()), others(trials[1:], asIs)), false
}

// best is the fastest, of those that cannot be told apart the first: modes are in the order
// of how much they touch, and without checksums the kernel takes more away than is meant.
func best(right []Trial) Trial {
	fastest := slices.MaxFunc(right, func(a, b Trial) int { return cmp.Compare(a.median(), b.median()) })
	equal := slices.DeleteFunc(slices.Clone(right), func(t Trial) bool { return fastest.faster(t) })
	return equal[0]
}

// others says why none of them was taken instead of asIs.
func others(trials []Trial, asIs Trial) string {
	text, sep := "", ""
	for _, t := range trials {
		what := "is not distinguishably faster"
		switch fault := t.Fault(); {
		case fault != "":
			what = "is wrong: " + fault
		case asIs.faster(t):
			what = fmt.Sprintf("is slower, %s", rate(t.median()))
		}
		text += sep + t.Mode.Name + " " + what
		sep = ", "
	}
	return text
}

// rate is a speed in words.
func rate(bits float64) string {
	if bits >= 1e9 {
		return fmt.Sprintf("%.3g Gbit/s", bits/1e9)
	}
	return fmt.Sprintf("%.3g Mbit/s", bits/1e6)
}

// Unite chooses the mode of an interface by the results of all its paths, nil where there is
// none: what all advise, else the one of the modes that is right on all paths and advised by
// most, else AsIs.
func Unite(results []Result) Mode {
	votes := make(map[string]int)
	var list []Mode
	for _, r := range results {
		if r.Wrong {
			continue
		}
		if votes[r.Mode.Name]++; votes[r.Mode.Name] == 1 {
			list = append(list, r.Mode)
		}
	}
	slices.SortStableFunc(list, func(a, b Mode) int {
		return cmp.Or(cmp.Compare(votes[b.Name], votes[a.Name]), cmp.Compare(slices.Index(order, a.Name), slices.Index(order, b.Name)))
	})
	for _, mode := range list {
		if !slices.ContainsFunc(results, func(r Result) bool { return !r.right(mode) }) {
			return mode
		}
	}
	return Mode{Name: AsIs, Changes: []Change{}}
}

// right reports whether mode was right on the result's path, or nothing was.
func (r Result) right(mode Mode) bool {
	if r.Wrong {
		return true
	}
	return slices.ContainsFunc(r.Trials, func(t Trial) bool { return t.Mode.Name == mode.Name && t.Fault() == "" })
}
