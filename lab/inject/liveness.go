package inject

import (
	"fmt"
	"time"

	"github.com/selvage/selvage/lab/result"
)

// Parameters that say how failures are detected.
const (
	livenessInterval   = "liveness"
	livenessMultiplier = "multiplier"
)

// NoteLiveness writes down how often BFD probes, and after how many lost probes something
// counts as failed; between says whom, "" where that goes without saying.
func NoteLiveness(p result.Parameters, interval time.Duration, multiplier int, between string) {
	p[livenessInterval] = result.Time(interval).Explained("between probes of BFD")
	if between != "" {
		p[livenessInterval] = p[livenessInterval].Explained("between probes of BFD: %s", between)
	}
	p[livenessMultiplier] = result.Count(multiplier).Explained("lost probes are a failure, so one is detected within %s", time.Duration(multiplier)*interval)
}

// Detection is within which time a failure is detected, 0 where the run did not say.
func Detection(p result.Parameters) time.Duration {
	return time.Duration(p.Int(livenessMultiplier)) * p.Time(livenessInterval)
}

// LivenessWords is how failures are detected in a few words: "BFD every 50ms × 3".
func LivenessWords(p result.Parameters) string {
	return fmt.Sprintf("BFD every %s × %d", p.Time(livenessInterval), p.Int(livenessMultiplier))
}
