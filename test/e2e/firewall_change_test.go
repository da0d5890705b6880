package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
)

// The policy changes while connections run.

// streamsOver are two streams each way between guests of one host, and over the tunnel.
func (n *policed) streamsOver() []*stream {
	n.t.Helper()
	var streams []*stream
	for _, d := range []direction{way(n.red1, n.red2, 4), way(n.red2, n.red1, 6), way(n.red1, n.red3, 4), way(n.red3, n.red1, 6)} {
		streams = append(streams, n.startStream(d))
	}
	n.goOn(streams)
	return streams
}

// What is still allowed, by another rule or another default, goes on without a loss.
func TestFirewallChangeKeeps(t *testing.T) {
	n := newPoliced(t, 4, open, open)
	streams := n.streamsOver()
	stop := n.meanwhile(chatter, way(n.red1, n.red3, 4), way(n.red3, n.red2, 6))
	bulk := n.meanwhile(transfersUntil, way(n.red2, n.red3, 4))
	const rounds = 2
	for round := range rounds {
		for _, p := range []policy{
			{options: "default: drop", rules: []string{`name: inside, action: allow, from: [10.0.0.0/24, "fd00::/64"], to: [10.0.0.0/24, "fd00::/64"]`}},
			{options: "default: reject, strict: true", rules: []string{
				fmt.Sprintf("name: other-%d, action: drop, services: [udp/%d]", round, 1+round),
				"name: watch, action: log-only, services: [tcp/1-65535]",
				"name: by-segment, action: allow, from: [{segment: red}], services: [udp/1-65535, tcp/1-65535]",
			}},
			open,
		} {
			n.enforce(1, p, "p1", "p2")
			n.enforce(2, p, "p3")
			n.goOn(streams)
		}
	}
	n.once("TCP did not notice", stop)
	n.once("nor did transfers", bulk)
	n.lostNothing(streams)
	n.once("connections were judged anew, and none was cut", func() error {
		judged, cut, err := n.rejudged("edge1")
		if err == nil && (judged < rounds*3*6 || cut != 0) { // at least so many, at each port that they cross
			err = fmt.Errorf("%v were judged anew, %v were cut", judged, cut)
		}
		return err
	})
}

// rejudged are the connections that an edge has asked a new policy about, and cut.
func (n *network) rejudged(host string) (judged, cut float64, err error) {
	text, err := n.ask(host).Metrics(n.ctx)
	if err != nil {
		return 0, 0, err
	}
	judged, err = metric(text, `selvage_events_total{event="conn-rejudged"}`)
	if err != nil {
		return 0, 0, err
	}
	cut, err = metric(text, `selvage_events_total{event="conn-cut"}`)
	return judged, cut, err
}

// meanwhile does something each way until stop is called, which says what went wrong.
func (*network) meanwhile(do func(direction, <-chan struct{}) error, ds ...direction) (stop func() error) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	errs := make([]error, len(ds))
	for i, d := range ds {
		wg.Go(func() { errs[i] = do(d, done) })
	}
	return sync.OnceValue(func() error {
		close(done)
		wg.Wait()
		return errors.Join(errs...)
	})
}

// transfersUntil sends large segments, one connection after the other.
func transfersUntil(d direction, done <-chan struct{}) error {
	for {
		select {
		case <-done:
			return nil
		default:
		}
		if err := transfer(d, len(content)); err != nil {
			return err
		}
	}
}

// chatter exchanges lines over one connection until done is closed.
func chatter(d direction, done <-chan struct{}) error {
	l, err := listenTCP(d.to, d.addr)
	if err != nil {
		return err
	}
	go echoStreams(l)
	defer l.Close()
	conn, err := dialTCP(d.from, l.Addr().String())
	if err != nil {
		return err
	}
	defer conn.Close()
	for rounds := 0; ; rounds++ {
		select {
		case <-done:
			if rounds == 0 {
				return fmt.Errorf("%s: nothing was exchanged", d.name)
			}
			return nil
		case <-time.After(time.Millisecond):
		}
		if err := exchangeLine(conn, patience); err != nil {
			return fmt.Errorf("%s, line %d: %w", d.name, rounds+1, err)
		}
	}
}

// What is no longer allowed ends at once, and nothing else does.
func TestFirewallChangeCuts(t *testing.T) {
	n := newPoliced(t, 4, open, none)
	n.serve(n.red3, portAllowed)
	streams := n.streamsOver()
	conn, err := dialTCP(n.red1.Host, fmt.Sprintf("%s:%d", n.red3.addr(4), portAllowed))
	n.must(err)
	defer conn.Close()
	n.once("TCP works", func() error { return exchangeLine(conn, patience) })
	cut := policy{options: "default: allow", rules: []string{"name: cut, action: drop, from: [10.0.0.1], to: [10.0.0.3]"}}
	n.enforce(1, cut, "p1", "p2")
	tunnel := streams[2]
	n.once("the stream to red3 has ended", func() error {
		got, sent := tunnel.got.Load(), tunnel.sent.Load()
		err := await.That(n.ctx, "more to be sent", func() error {
			if tunnel.sent.Load() < sent+streamRate/4 {
				return errors.New("not yet")
			}
			return nil
		})
		// What was on its way when the policy changed may still have come.
		if more := tunnel.got.Load() - got; err == nil && more > streamRate/100 {
			err = fmt.Errorf("%d more datagrams have come", more)
		}
		return err
	})
	n.once("TCP to red3 hangs", func() error {
		if err := exchangeLine(conn, quietTime); !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("it is answered, or %w", err)
		}
		return nil
	})
	n.once("connections were cut", func() error {
		_, cut, err := n.rejudged("edge1")
		if err == nil && cut < 2 {
			err = fmt.Errorf("%v", cut)
		}
		return err
	})
	others := append(streams[:2:2], streams[3])
	n.goOn(others)
	n.enforce(1, open, "p1", "p2")
	n.more(tunnel, streamRate/4)
	n.once("TCP works again", func() error { return exchangeLine(n.connect(n.red1, n.red3, 4, portAllowed), patience) })
	tunnel.end()
	n.lostNothing(others)
}

// exchangeLine sends a line over a connection to an echo and wants it back.
func exchangeLine(conn net.Conn, wait time.Duration) error {
	if err := conn.SetDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("one line.")); err != nil {
		return err
	}
	var got []byte
	for b := make([]byte, 100); len(got) < len("one line."); {
		size, err := conn.Read(b)
		if err != nil {
			return err
		}
		got = append(got, b[:size]...)
	}
	if string(got) != "one line." {
		return fmt.Errorf("%q came back", got)
	}
	return nil
}

// largePolicy has so many rules, none of which is about the streams but the last.
func largePolicy(rules, version int) policy {
	p := policy{options: "default: drop"}
	for i := range rules - 1 {
		p.rules = append(p.rules, fmt.Sprintf("name: r%d, action: drop, from: [172.%d.%d.0/24], to: [192.168.%d.0/24], services: [tcp/%d]",
			i, 16+i>>8&15, i&255, (i+version)&255, 1+(i*7+version)%60000))
	}
	return policy{p.options, append(p.rules, "name: inside, action: allow, from: [{segment: red}]")}
}

// 10,000 rules are replaced by 10,000 others while streams cross, and nothing is lost.
func TestFirewallLargePolicy(t *testing.T) {
	n := newPoliced(t, 4, open, none)
	streams := n.streamsOver()
	for version := range 3 {
		began := time.Now()
		n.enforce(1, largePolicy(10_000, version), "p1", "p2")
		t.Logf("10,000 changed rules were in force after %s", time.Since(began).Round(time.Millisecond))
		n.goOn(streams)
	}
	n.enforce(1, open, "p1", "p2")
	n.lostNothing(streams)
}

// Connections that open and close by the thousand while the policy changes all work, where only
// a SYN opens one.
func TestFirewallChurn(t *testing.T) {
	strict := policy{options: "default: drop, strict: true", rules: []string{"name: inside, action: allow, from: [{segment: red}]"}}
	n := newPoliced(t, 4, strict, strict)
	for _, g := range []guest{n.red1, n.red2, n.red3} {
		n.serve(g, portAllowed)
	}
	var ds []direction
	for _, family := range []int{4, 6} {
		ds = append(ds, way(n.red1, n.red3, family), way(n.red3, n.red2, family), way(n.red2, n.red1, family))
	}
	var made atomic.Int64
	stop := n.meanwhile(func(d direction, done <-chan struct{}) error {
		for {
			select {
			case <-done:
				return nil
			default:
			}
			if err := visit(d); err != nil {
				return fmt.Errorf("%s, after %d connections: %w", d.name, made.Load(), err)
			}
			made.Add(1)
		}
	}, ds...)
	for round := range 6 {
		changed := strict
		changed.rules = append([]string{fmt.Sprintf("name: other-%d, action: drop, services: [tcp/%d]", round, 1+round)}, strict.rules...)
		n.enforce(1, changed, "p1", "p2")
		n.enforce(2, changed, "p3")
		before := made.Load()
		n.fact("connections go on being made", func() error {
			if more := made.Load() - before; more < 100 {
				return fmt.Errorf("%d more", more)
			}
			return nil
		})
	}
	n.once("every connection worked", stop)
	t.Logf("%d connections", made.Load())
	n.noDrops()
}

// visit makes a connection for one line.
func visit(d direction) error {
	conn, err := dialTCP(d.from, netip.AddrPortFrom(d.addr, portAllowed).String())
	if err != nil {
		return err
	}
	defer conn.Close()
	return exchangeLine(conn, patience)
}

// A mistake in the new policy leaves the old one in force.
func TestFirewallChangeRefused(t *testing.T) {
	n := newPoliced(t, 4, strictOut, none)
	n.serve(n.red3, portAllowed, portDropped)
	text := n.yaml(1, policedSpec(strictOut, "p1", "p2"))
	n.must(n.reload("edge1", strings.Replace(text, "services: [tcp/7001,", "services: [tcp/7001-7000,", 1)))
	n.fact("the edge names the mistake", func() error { return n.problem("edge1", "7001-7000") })
	n.gets(n.red1, "tcp", n.red3, portAllowed, answered)
	n.gets(n.red1, "tcp", n.red3, portDropped, silent)
}
