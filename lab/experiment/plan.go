package experiment

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Numbers lists numbers for a parameter.
func Numbers(list []int) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ", ")
}

// Step is one sample to take.
type Step struct {
	Round    int // from 1
	CaseName string
	Target   string
	Planned  time.Duration // of measuring
}

// String names the sample in a progress line.
func (s Step) String() string {
	return fmt.Sprintf("round %d: %s of %s", s.Round, s.CaseName, s.Target)
}

// Pace estimates the time that samples take besides measuring: settling, warming
// up, starting instruments.
type Pace struct {
	extra time.Duration // of all samples so far
	n     int
	First time.Duration // the guess before there is a sample
}

// Took notes how long a sample took.
func (p *Pace) Took(s Step, took time.Duration) {
	p.extra += max(0, took-s.Planned)
	p.n++
}

// Left estimates how long steps will take.
func (p *Pace) Left(steps []Step) time.Duration {
	extra := p.First
	if p.n > 0 {
		extra = p.extra / time.Duration(p.n)
	}
	left := time.Duration(len(steps)) * extra
	for _, s := range steps {
		left += s.Planned
	}
	return left
}
