package firewall

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/test/e2e/harness"
)

// The policy changes while connections run.

// inside lets the guests talk among themselves, and only a SYN opens a connection.
var inside = policy{options: "default: drop, strict: true", rules: []string{"name: inside, action: allow, from: [{segment: red}]"}}

func TestFirewallChanges(t *testing.T) {
	t.Parallel()
	inSteps(t,
		step{"OnOff", none, none, onOff},
		step{"Keeps", open, open, changeKeeps},
		step{"Cuts", open, none, changeCuts},
		step{"Churn", inside, inside, churn},
	)
}

// streamsOver are two streams each way between guests of one host, and over the tunnel.
func (n *policed) streamsOver() []*harness.Stream {
	n.T.Helper()
	var streams []*harness.Stream
	for _, d := range []harness.Direction{harness.Way(n.red1, n.red2, 4), harness.Way(n.red2, n.red1, 6), harness.Way(n.red1, n.red3, 4), harness.Way(n.red3, n.red1, 6)} {
		streams = append(streams, n.StartStream(d))
	}
	n.GoOn(streams)
	return streams
}

// changeKeeps: what is still allowed, by another rule or another default, goes on without a loss.
func changeKeeps(n *policed) {
	n.T.Helper()
	evaluatedBefore, cutBefore, err := rejudged(n.Hub.Network, "edge1")
	n.Must(err)
	streams := n.streamsOver()
	stop := n.Meanwhile(chatter, harness.Way(n.red1, n.red3, 4), harness.Way(n.red3, n.red2, 6))
	bulk := n.Meanwhile(transfersUntil, harness.Way(n.red2, n.red3, 4))
	changes := []policy{
		{options: "default: drop", rules: []string{`name: inside, action: allow, from: [10.0.0.0/24, "fd00::/64"], to: [10.0.0.0/24, "fd00::/64"]`}},
		{options: "default: reject, strict: true, connections: 2048, halfOpen: 1024", rules: []string{ // other tables, to which connections move
			"name: watch, action: log-only, services: [tcp/1-65535]",
			"name: by-segment, action: allow, from: [{segment: red}], services: [udp/1-65535, tcp/1-65535]",
		}},
		open,
	}
	for _, p := range changes {
		n.enforce(1, p, "p1", "p2")
		n.enforce(2, p, "p3")
		n.GoOn(streams)
	}
	n.Once("TCP did not notice", stop)
	n.Once("nor did transfers", bulk)
	n.LostNothing(streams)
	n.Once("connections were judged anew, and none was cut", func() error {
		evaluated, cut, err := rejudged(n.Hub.Network, "edge1")
		evaluated, cut = evaluated-evaluatedBefore, cut-cutBefore
		if err == nil && (evaluated < float64(len(changes)*6) || cut != 0) { // at least so many, at each port that they cross
			err = fmt.Errorf("%v were judged anew, %v were cut", evaluated, cut)
		}
		return err
	})
}

// rejudged are the connections that an edge has asked a new policy about, and cut.
func rejudged(n *harness.Network, host string) (evaluated, cut float64, err error) {
	text, err := n.Ask(host).Metrics(n.Ctx)
	if err != nil {
		return 0, 0, err
	}
	evaluated, err = harness.Metric(text, `selvage_events_total{event="conntrack-reevaluated"}`)
	if err != nil {
		return 0, 0, err
	}
	cut, err = harness.Metric(text, `selvage_events_total{event="conntrack-revoked"}`)
	return evaluated, cut, err
}

// transfersUntil sends large segments, one connection after the other, and leaves others time.
func transfersUntil(d harness.Direction, done <-chan struct{}) error {
	pace := time.NewTicker(100 * time.Millisecond)
	defer pace.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-pace.C:
		}
		if err := harness.Transfer(d, len(harness.Content)); err != nil {
			return err
		}
	}
}

// chatter exchanges lines over one connection until done is closed.
func chatter(d harness.Direction, done <-chan struct{}) error {
	l, err := harness.ListenTCP(d.To, d.Addr)
	if err != nil {
		return err
	}
	go harness.EchoStreams(l)
	defer l.Close()
	conn, err := harness.DialTCP(d.From, l.Addr().String())
	if err != nil {
		return err
	}
	defer conn.Close()
	pace := time.NewTicker(time.Millisecond)
	defer pace.Stop()
	for rounds := 0; ; rounds++ {
		select {
		case <-done:
			if rounds == 0 {
				return fmt.Errorf("%s: nothing was exchanged", d.Name)
			}
			return nil
		case <-pace.C:
		}
		if err := harness.ExchangeLine(conn, harness.Patience); err != nil {
			return fmt.Errorf("%s, line %d: %w", d.Name, rounds+1, err)
		}
	}
}

// changeCuts: what is no longer allowed ends at once, and nothing else does.
func changeCuts(n *policed) {
	n.T.Helper()
	n.Serve(n.red3, harness.PortAllowed)
	streams := n.streamsOver()
	conn, err := harness.DialTCP(n.red1.Host, fmt.Sprintf("%s:%d", n.red3.Addr(4), harness.PortAllowed))
	n.Must(err)
	defer conn.Close()
	n.Once("TCP works", func() error { return harness.ExchangeLine(conn, harness.Patience) })
	_, cutBefore, err := rejudged(n.Hub.Network, "edge1")
	n.Must(err)
	cut := policy{options: "default: allow", rules: []string{"name: cut, action: drop, from: [10.0.0.1], to: [10.0.0.3]"}}
	n.enforce(1, cut, "p1", "p2")
	tunnel := streams[2]
	n.Once("the stream to red3 has ended", func() error {
		got, sent := tunnel.Got.Load(), tunnel.Sent.Load()
		err := await.That(n.Ctx, "more to be sent", func() error {
			if tunnel.Sent.Load() < sent+harness.StreamRate/4 {
				return errors.New("not yet")
			}
			return nil
		})
		// What was on its way when the policy changed may still have come.
		if more := tunnel.Got.Load() - got; err == nil && more > harness.StreamRate/100 {
			err = fmt.Errorf("%d more datagrams have come", more)
		}
		return err
	})
	n.Once("TCP to red3 hangs", func() error {
		if err := harness.ExchangeLine(conn, harness.QuietTime); !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("it is answered, or %w", err)
		}
		return nil
	})
	n.Once("connections were cut", func() error {
		_, cut, err := rejudged(n.Hub.Network, "edge1")
		if err == nil && cut-cutBefore < 2 {
			err = fmt.Errorf("%v", cut-cutBefore)
		}
		return err
	})
	others := append(streams[:2:2], streams[3])
	n.GoOn(others)
	n.enforce(1, open, "p1", "p2")
	n.More(tunnel, harness.StreamRate/4)
	n.Once("TCP works again", func() error {
		return harness.ExchangeLine(n.connect(n.red1, n.red3, 4, harness.PortAllowed), harness.Patience)
	})
	tunnel.End()
	n.LostNothing(others)
}

// churn: connections that open and close by the thousand while the policy changes all work, where
// only a SYN opens one.
func churn(n *policed) {
	n.T.Helper()
	noDrops := n.WatchDrops()
	for _, g := range []harness.Guest{n.red1, n.red2, n.red3} {
		n.Serve(g, harness.PortAllowed)
	}
	var ds []harness.Direction
	for _, family := range []int{4, 6} {
		ds = append(ds, harness.Way(n.red1, n.red3, family), harness.Way(n.red3, n.red2, family), harness.Way(n.red2, n.red1, family))
	}
	var made atomic.Int64
	stop := n.Meanwhile(func(d harness.Direction, done <-chan struct{}) error {
		for {
			select {
			case <-done:
				return nil
			default:
			}
			if err := visit(d); err != nil {
				return fmt.Errorf("%s, after %d connections: %w", d.Name, made.Load(), err)
			}
			made.Add(1)
		}
	}, ds...)
	for round := range 2 {
		changed := inside
		changed.rules = append([]string{fmt.Sprintf("name: other-%d, action: drop, services: [tcp/%d]", round, 1+round)}, inside.rules...)
		n.enforce(1, changed, "p1", "p2")
		n.enforce(2, changed, "p3")
		before := made.Load()
		n.Fact("connections go on being made", func() error {
			if more := made.Load() - before; more < 100 {
				return fmt.Errorf("%d more", more)
			}
			return nil
		})
	}
	n.Once("every connection worked", stop)
	n.T.Logf("%d connections", made.Load())
	noDrops()
}

// visit makes a connection for one line.
func visit(d harness.Direction) error {
	conn, err := harness.DialTCP(d.From, netip.AddrPortFrom(d.Addr, harness.PortAllowed).String())
	if err != nil {
		return err
	}
	defer conn.Close()
	return harness.ExchangeLine(conn, harness.Patience)
}
