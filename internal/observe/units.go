package observe

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Count is a number as tables have it: exact up to four digits, then three digits with an SI prefix.
func Count(n uint64) string { return rounded(n) }

// Rate is a number a second as tables have it.
func Rate(perSecond float64) string { return rate(perSecond) }

// Span is a time in seconds as tables have it: its two largest units.
func Span(seconds float64) string { return string(span(seconds)) }

// count is a number of packets and the like.
func count(n uint64) counter { return counter{n: n} }

// size is a number of bytes in decimal units.
func size(n uint64) counter { return counter{n, "B"} }

// rounded is exact up to four digits, then three digits with an SI prefix.
func rounded(n uint64) string {
	const exact = 10_000
	if n < exact {
		return strconv.FormatUint(n, 10)
	}
	value := float64(n)
	for _, prefix := range []string{"k", "M", "G", "T", "P"} {
		if value /= 1000; value < 999.5 {
			return threeDigits(value) + prefix
		}
	}
	return threeDigits(value/1000) + "E"
}

func threeDigits(v float64) string {
	digits := 0
	switch {
	case v < 9.995:
		digits = 2
	case v < 99.95:
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// percent is a share to a hundredth.
func percent(share float64) gauge { return gauge(strconv.FormatFloat(100*share, 'f', 2, 64) + " %") }

// rate is a number a second: whole from ten on.
func rate(perSecond float64) string {
	if perSecond > 0 && perSecond < 9.95 {
		return strconv.FormatFloat(perSecond, 'f', 1, 64)
	}
	return rounded(uint64(math.Round(max(perSecond, 0))))
}

// span is a time in seconds as its two largest units.
func span(seconds float64) gauge {
	if math.IsNaN(seconds) || seconds < 0 {
		return "0s"
	}
	const day = 24 * time.Hour
	d := time.Duration(min(seconds, 1e9) * float64(time.Second))
	switch {
	case d < 10*time.Second:
		return gauge(strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s")
	case d < time.Minute:
		return gauge(fmt.Sprintf("%ds", d/time.Second))
	case d < time.Hour:
		return gauge(fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second))
	case d < day:
		return gauge(fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute))
	}
	return gauge(fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour))
}

// positive is a number for which zero means that there is none.
func positive(n int) string {
	if n <= 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func addr(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// list joins what has a text by commas.
func list[T fmt.Stringer](values []T) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = v.String()
	}
	return strings.Join(texts, ",")
}
