package stats

import (
	"math"
	"strconv"
	"strings"
)

// In writes v in the given unit, without the unit: counts as whole numbers, all
// else as Figure does.
func In(v float64, unit string) string {
	if unit == "count" && math.Abs(v) < 100 {
		return strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	}
	return Figure(v)
}

// Figure writes v for people: three significant digits, whole numbers from 100
// on, thousands set apart by commas.
func Figure(v float64) string {
	abs := math.Abs(v)
	digits := 3
	switch {
	case v == 0, abs >= 99.95:
		digits = 0
	case abs >= 9.995:
		digits = 1
	case abs >= 0.9995:
		digits = 2
	}
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if digits > 0 {
		return s
	}
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	var groups []string
	for len(s) > 3 {
		groups = append([]string{s[len(s)-3:]}, groups...)
		s = s[:len(s)-3]
	}
	return sign + strings.Join(append([]string{s}, groups...), ",")
}

// Ratio writes a ratio as "1.02 ×"; "–" for the 0 that means there is none.
func Ratio(v float64) string {
	if v == 0 {
		return "–"
	}
	return BareRatio(v) + " ×"
}

// BareRatio is Ratio without the sign, for columns whose head has it.
func BareRatio(v float64) string {
	switch {
	case v == 0:
		return "–"
	case v >= 99.5:
		return Figure(math.Round(v))
	case v >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// Share writes a share, without a sign where it is not negative: 0.02 is "2.0 %".
func Share(v float64) string {
	if v > 0 {
		return unsigned(v)
	}
	return Percent(v)
}

// Percent writes a share with its sign: 0.02 is "+2.0 %", -0.034 is "−3.4 %".
func Percent(share float64) string {
	switch words := unsigned(share); {
	case share <= -leastPercent:
		return "−" + words
	case share >= leastPercent:
		return "+" + words
	default:
		return words
	}
}

// leastPercent is the least share that is not written as zero.
const leastPercent = 0.0005

func unsigned(share float64) string {
	return strconv.FormatFloat(math.Abs(share)*100, 'f', 1, 64) + " %"
}
