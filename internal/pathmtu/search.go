package pathmtu

import (
	"context"
	"time"
)

const (
	// maxPackets bounds one search, and so does maxPackets × tryTimeout its time.
	// A binary search of all sizes up to 65535 bytes that loses three requests at
	// each takes 18 × 3.
	maxPackets = 96
	// usualMTU is tried first where larger packets are lost by now: a link was taken for one of jumbo frames.
	usualMTU = 1500
	// maxHints is how often a search lets a router choose the next size.
	maxHints = 4
)

// requester sends requests of one size until one is answered or enough are not. It
// reports how many it sent.
type requester func(ctx context.Context, sizeBytes int) (v verdict, packets int, err error)

// search narrows down a path MTU. Sizes are those of IP packets in bytes.
type search struct {
	ask      requester
	family   family
	answered int // the largest size that was; 0 while none was
	lost     int // the smallest size that was not: more than answered
	hint     int // what a router said last, or 0
	hints    int // how many were followed
	packets  int
}

func newSearch(f family, ceiling int, ask requester) *search {
	return &search{ask: ask, family: f, lost: ceiling + 1}
}

// result is what was found.
func (s *search) result() Result {
	r := Result{State: Unanswered, MTU: s.answered, When: time.Now()}
	if s.answered > 0 {
		r.State = Confirmed
	}
	return r
}

// confirm tries the ceiling alone, and searches below it when that is lost.
func (s *search) confirm(ctx context.Context) error {
	ceiling := s.lost - 1
	if ceiling <= s.family.floor {
		return s.run(ctx)
	}
	if err := s.try(ctx, ceiling); err != nil || s.answered == ceiling {
		return err
	}
	if s.hint == 0 && ceiling > usualMTU {
		s.hint = usualMTU
	}
	if err := s.below(ctx, ceiling); err != nil || s.answered == 0 {
		return err
	}
	// A path that was repaired meanwhile answered some sizes, and had lost others before.
	v, packets, err := s.ask(ctx, ceiling)
	if s.packets += packets; err == nil && v.replied {
		s.answered = ceiling
	}
	return err
}

// run leaves in answered the largest size that passes, or 0 when the remote
// answers nothing.
func (s *search) run(ctx context.Context) error { return s.below(ctx, s.lost-1) }

// below is run with a ceiling that may be lost already.
func (s *search) below(ctx context.Context, ceiling int) error {
	// RFC 8899 section 5.2: the base state, and after it the error state.
	if err := s.try(ctx, min(s.family.base, s.lost-1)); err != nil {
		return err
	}
	if s.answered == 0 && s.lost > s.family.floor {
		if err := s.try(ctx, s.family.floor); err != nil {
			return err
		}
	}
	for s.answered > 0 && s.lost-s.answered > 1 && s.packets < maxPackets {
		if err := s.try(ctx, s.next(ceiling)); err != nil {
			return err
		}
	}
	return nil
}

// next chooses among the sizes that may or may not pass. A hint is where the
// search looks next, never where it ends: the size above it has to be lost too.
func (s *search) next(ceiling int) int {
	switch {
	case s.hint > s.answered && s.hint < s.lost && s.hints < maxHints:
		s.hints++
		return s.hint
	case s.hint != 0 && s.hint == s.answered:
		return s.answered + 1
	case s.lost > ceiling:
		return ceiling
	default:
		return s.answered + (s.lost-s.answered)/2
	}
}

func (s *search) try(ctx context.Context, size int) error {
	v, packets, err := s.ask(ctx, size)
	s.packets += packets
	if err != nil {
		return err
	}
	if v.replied {
		s.answered = size
		return nil
	}
	s.lost = size
	if v.nextMTU >= s.family.floor && v.nextMTU < size {
		s.hint = v.nextMTU
	}
	return nil
}
