package experiments

import (
	"fmt"
	"time"
)

// step is one sample to take.
type step struct {
	round    int // from 1
	caseName string
	target   string
	planned  time.Duration // of measuring
}

// String names the sample in a progress line.
func (s step) String() string {
	return fmt.Sprintf("round %d: %s of %s", s.round, s.caseName, s.target)
}

// pace estimates the time that samples take besides measuring: settling, warming
// up, starting instruments.
type pace struct {
	extra time.Duration // of all samples so far
	n     int
	first time.Duration // the guess before there is a sample
}

func (p *pace) took(s step, took time.Duration) {
	p.extra += max(0, took-s.planned)
	p.n++
}

// left estimates how long steps will take.
func (p *pace) left(steps []step) time.Duration {
	extra := p.first
	if p.n > 0 {
		extra = p.extra / time.Duration(p.n)
	}
	left := time.Duration(len(steps)) * extra
	for _, s := range steps {
		left += s.planned
	}
	return left
}
