package gen

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// fraction is the bits of a time below 1 ns in the kernel program.
const fraction = 16

// withDefaults are the Load's, for a Stream.
func (l Load) withDefaults() Load {
	setDefault(&l.Burst, 1)
	setDefault(&l.CatchUp, 100*time.Microsecond)
	if l.Batch == 0 {
		l.Batch = 64
		switch {
		case l.Rate > 0 && l.Rate <= 5e5:
			l.Batch = 1
		case l.Rate > 0 && l.Rate <= 2e6:
			l.Batch = 8
		}
		l.Batch = min(max(l.Batch, min(l.Burst, 64)), 256)
	}
	return l
}

func (l Load) check() error {
	switch {
	case l.Rate < 0 || math.IsNaN(l.Rate) || l.Rate > 1e9:
		return fmt.Errorf("rate of %v frames/s is not within 0 … 1e9", l.Rate)
	case l.Frames == 0 && l.Duration == 0:
		return errors.New("a load without an end: give it frames or a duration")
	case l.Duration < 0 || l.CatchUp < 0:
		return fmt.Errorf("a load of %s that catches up with %s: times are 0 or more", l.Duration, l.CatchUp)
	case l.Burst < 1 || l.Burst > 1<<20:
		return fmt.Errorf("bursts of %d frames are not within 1 … %d", l.Burst, 1<<20)
	case l.Batch < 1 || l.Batch > 256:
		return fmt.Errorf("batches of %d frames are not within 1 … 256", l.Batch)
	}
	return nil
}

// run is the load as the kernel program has it.
func (l Load) run(id uint16) genRun {
	r := genRun{Id: uint8(id), Frames: math.MaxUint64, Burst: uint32(l.Burst), CatchUp: uint64(l.CatchUp) << fraction, StartNs: l.start}
	if !l.Untimed {
		r.Timed = 1
	}
	if l.Frames > 0 {
		r.Frames = l.Frames
	}
	if l.Rate == 0 {
		r.DurationNs = uint64(l.Duration)
		return r
	}
	r.Interval = max(1, uint64(math.Round(float64(l.Burst)*1e9/l.Rate*(1<<fraction))))
	r.Due = uint64(l.lead * float64(r.Interval))
	if l.Duration > 0 {
		r.Frames = min(r.Frames, max(1, uint64(math.Round(l.Rate*l.Duration.Seconds()))))
	}
	return r
}

// left is the time that the rest of a run takes.
func (l Load) left(r genRun) time.Duration {
	if l.Rate > 0 {
		return time.Duration(float64(r.Frames-r.Offered) / l.Rate * 1e9)
	}
	if r.DurationNs == 0 {
		return time.Hour
	}
	return time.Duration(r.DurationNs) - min(time.Duration(r.DurationNs), time.Duration(r.LastNs-r.StartNs))
}

// took is the time of a run: until the next frame would have been due.
func (l Load) took(r genRun, wall time.Duration) time.Duration {
	took := time.Duration(r.LastNs - r.StartNs)
	if r.LastNs < r.StartNs { // it ended before it began
		return wall
	}
	if l.Rate > 0 {
		return max(took+time.Duration(r.Interval>>fraction), time.Duration(r.Due>>fraction))
	}
	if took == 0 { // a few frames
		return wall
	}
	return took
}
