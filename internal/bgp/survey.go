package bgp

import (
	"time"

	"github.com/selvage/selvage/internal/evpn"
)

const (
	// surveyShare bounds what surveys take: while routes change one is made after so many times as long as the last one took.
	surveyShare = 20
	// surveyQuick is a survey that takes so little that each who asks may have one.
	surveyQuick = time.Millisecond
)

// survey is what a look at all routes shows. There may be very many, the table cannot change meanwhile, and who watches
// asks several times a second.
type survey struct {
	counts   evpn.Counts
	problems []evpn.Status
	// unimported are routes that concern nothing here, and lonely the segments without any remote.
	unimported []evpn.Unimported
	lonely     []string
	changed    bool      // the table has, since
	again      time.Time // when another one may be made; zero: at any time
}

// of looks at the table unless it knows it, or has just looked.
func (s *survey) of(t *evpn.Table) {
	begin := time.Now()
	if !s.changed || begin.Before(s.again) {
		return
	}
	*s = survey{counts: t.Counts(), problems: t.Problems(), unimported: t.Unimported(), lonely: evpn.Lonely(t)}
	if took := time.Since(begin); took > surveyQuick {
		s.again = begin.Add(took * surveyShare)
	}
}
