package experiments

import (
	"cmp"
	"fmt"
	"time"

	"github.com/selvage/selvage/lab/stats"
)

// step is one sample to take.
type step struct {
	round     int // from 1
	kase      string
	contender string
	planned   time.Duration // of measuring
	request   int           // bytes, of request and response
}

// String names the sample in a progress line.
func (s step) String() string { return fmt.Sprintf("round %d: %s of %s", s.round, s.kase, s.contender) }

// plan lists the samples of c in the order in which they are taken: one case
// after the other in each round, and for each case all contenders in the round's
// balanced order, so the samples that are compared are neighbours in time.
func (c *Ab) plan() []step {
	var steps []step
	for i, order := range stats.Balanced(c.Contenders, c.Rounds) {
		for _, kase := range c.kinds() {
			for _, contender := range order {
				kase.round, kase.contender = i+1, contender
				steps = append(steps, kase)
			}
		}
	}
	return steps
}

// kinds are the cases of c without round and contender.
func (c *Ab) kinds() []step {
	var kinds []step
	for _, name := range c.Cases {
		switch name {
		case "tcp":
			kinds = append(kinds, step{kase: "tcp", planned: c.Duration})
		case "rr":
			kinds = append(kinds,
				step{kase: "rr-1", planned: c.RRDuration, request: 1},
				step{kase: "rr-1024", planned: c.RRDuration, request: 1024})
		case "udp":
			kinds = append(kinds, step{kase: "udp", planned: c.UDPDuration})
		}
	}
	return kinds
}

// pace estimates the time that samples take besides measuring: settling, warming
// up, starting instruments.
type pace struct {
	extra time.Duration // of all samples so far
	n     int
	first time.Duration // the guess before there is a sample; firstExtra when zero
}

// firstExtra is the A/B experiment's guess before there is a sample: it is about what they take on a
// 2-core machine.
const firstExtra = 900 * time.Millisecond

func (p *pace) took(s step, took time.Duration) {
	p.extra += max(0, took-s.planned)
	p.n++
}

// left estimates how long steps will take.
func (p *pace) left(steps []step) time.Duration {
	extra := cmp.Or(p.first, firstExtra)
	if p.n > 0 {
		extra = p.extra / time.Duration(p.n)
	}
	left := time.Duration(len(steps)) * extra
	for _, s := range steps {
		left += s.planned
	}
	return left
}
