package inject

import (
	"fmt"
	"time"
)

// TimeFlag is a flag's time and its limits.
type TimeFlag struct {
	Flag              string
	Time, Least, Most time.Duration
}

// CheckTimes says which time is not within its limits.
func CheckTimes(flags []TimeFlag) error {
	for _, t := range flags {
		if t.Time < t.Least || t.Time > t.Most {
			return fmt.Errorf("%s: %s is not within %s … %s", t.Flag, t.Time, t.Least, t.Most)
		}
	}
	return nil
}
