package edge

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/selvage/selvage/internal/background"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/hostevent"
	"github.com/selvage/selvage/internal/pathmtu/discovery"
)

// epochClock is one that has to be moved so often.
type epochClock struct{ every time.Duration }

func (epochClock) Tick() error                        { return nil }
func (c epochClock) TickEvery() time.Duration         { return c.every }
func (epochClock) Lease() (l datapath.Lease, _ error) { return l, nil }

// An idle edge ticks each three seconds, or as often as the clock of the transit programs has to go; but no flow's lifetime has
// it tick more often than events do.
func TestIdleTicks(t *testing.T) {
	for every, want := range map[time.Duration]time.Duration{
		0: tickIdle, 5 * time.Second: tickIdle, 625 * time.Millisecond: 625 * time.Millisecond, time.Millisecond: tickHosts,
	} {
		e := &edge{mtus: discovery.New(discovery.Options{}), hostEvents: hostevent.New(hostevent.Options{})}
		e.state.dp = &DataPath{Clock: epochClock{every}}
		if got := tickNeeded(e); got != want {
			t.Errorf("a clock of %s: a tick each %s, want %s", every, got, want)
		}
	}
}

// An event has a tick come soon, and many do not have more of them come than the first. Reports, which strangers cause, make
// frequent ticks no more frequent.
func TestTicksComeSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ticks := tickInterval{background.NewTicker(tickIdle)}
		defer ticks.Stop()
		until := func() time.Duration {
			begin := time.Now()
			<-ticks.C
			return time.Since(begin)
		}
		if got := until(); got != tickIdle {
			t.Errorf("an idle tick after %s", got)
		}
		begin := time.Now()
		for range 3 { // events that come while one waits do not put the tick off
			ticks.hasten()
			time.Sleep(tickHosts / 4) //nolint:forbidigo // the clock is virtual
		}
		if until(); time.Since(begin) != tickHosts {
			t.Errorf("a tick %s after a report", time.Since(begin))
		}
		ticks.Set(tickReports)
		ticks.hasten()
		if got := until(); got != tickReports {
			t.Errorf("a tick %s after a further report", got)
		}
		ticks.Set(tickIdle)
		if got := until(); got != tickIdle {
			t.Errorf("a tick after %s when all is done", got)
		}
	})
}
