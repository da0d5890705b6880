package offload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
)

const (
	// rounds of timed bursts, each of all modes, every other one backwards.
	rounds = 5
	// burstTime and burstBytes bound a timed burst.
	burstTime, burstBytes = 40 * time.Millisecond, 8 << 20
	// checkedFrames of each shape are sent without haste, so that none is lost for want of
	// room, and every byte and checksum of them is compared.
	checkedFrames = 12
	checkedTries  = 3
	checkedPause  = 500 * time.Microsecond
	// settleTime is what an adapter gets to take up a change.
	settleTime = 20 * time.Millisecond
	// answerTimeout and askTries: an adapter that starts anew after a change may take seconds.
	answerTimeout, askTries = 500 * time.Millisecond, 6
	openTries               = 3
	drainTime               = 100 * time.Millisecond
)

// ErrBusy says that the remote is being probed or probes itself: ask again later.
var ErrBusy = errors.New("the remote is busy with another offload probe")

// Path is what is probed.
type Path struct {
	overlay.Pair
	Interface string // of the underlay
	Ifindex   int
	MTU       int    // of the path, in bytes of an IP packet
	Port      uint16 // on which remotes answer
	// TunnelPort is the UDP port of the tunnels whose offloads are meant: some adapters
	// treat one better than another.
	TunnelPort uint16
	Checksum   bool // outer UDP checksums
}

// Setter makes the offloads that differ from the operator's be those, nil for none, and
// returns when they are.
type Setter func(context.Context, []host.Offload) error

// Probe probes a path in the network namespace of the calling thread, which the caller
// locked. It takes a few seconds, and leaves the offloads as the operator has them. An error
// means that nothing was found.
func Probe(ctx context.Context, path Path, turn *Turn, set Setter) (result Result, err error) {
	if !turn.mu.TryLock() {
		return result, ErrBusy
	}
	defer turn.mu.Unlock()
	defer func() {
		if err != nil {
			err = fmt.Errorf("probe the offloads of %s to %s: %w", path.Interface, path.Remote, err)
		}
	}()
	if err := set(ctx, nil); err != nil {
		return result, err
	}
	result.Interface = path.Interface
	adapters, err := host.OpenAdapters()
	if err != nil {
		return result, err
	}
	defer adapters.Close()
	if result.Identity, err = Identify(adapters, path.Interface); err != nil {
		return result, err
	}
	features, err := adapters.Features(path.Interface)
	if err != nil {
		return result, err
	}
	p, err := openProber(ctx, path)
	if err != nil {
		return result, err
	}
	defer func() {
		err = errors.Join(err, p.close())
	}()
	result.Trials, err = p.trials(ctx, Modes(features), set)
	if err != nil {
		return result, err
	}
	result.When = time.Now()
	result.Mode, result.Why, result.Wrong = Decide(result.Trials)
	return result, nil
}

// Identify says what a result for the interface depends on.
func Identify(adapters *host.Adapters, name string) (Identity, error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return Identity{}, fmt.Errorf("ask for the kernel's release: %w", err)
	}
	driver, err := adapters.Driver(name)
	return Identity{Kernel: unix.ByteSliceToString(uts.Release[:]), Driver: driver}, err
}

// prober is a session with a responder.
type prober struct {
	path    Path
	sock    *socket
	open    message // as it was answered
	tunnel  *host.ProbeTunnel
	pattern pattern
	buffer  []byte
	burst   uint32
}

func openProber(ctx context.Context, path Path) (_ *prober, err error) {
	unit := unitFor(path.MTU, path.Remote.Is6())
	if unit < leastUnit {
		return nil, fmt.Errorf("the path carries %d bytes, too little for a tunnel", path.MTU)
	}
	sock, err := openSocket(path.Local, 0)
	if err != nil {
		return nil, err
	}
	p := &prober{path: path, sock: sock, buffer: make([]byte, snapLength)}
	question := message{
		Kind: kindOpen, Session: rand.Uint64(), VNI: rand.Uint32N(maxVNI) + 1, Port: path.TunnelPort, Unit: uint16(unit),
	}
	p.open, err = p.ask(ctx, question, openTries)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("it does not answer at UDP port %d: configure spec.underlay.offloadProbe there too, "+
			"with this edge among its remotes, and let the port pass", path.Port)
	case err == nil && p.open.Status == statusBusy:
		err = ErrBusy
	case err == nil && p.open.Status != statusOpen:
		err = errors.New("it cannot take part, its log says why")
	}
	if err != nil {
		return nil, errors.Join(err, sock.close())
	}
	p.pattern = newPattern(p.open.Session^p.open.Token, unit)
	p.tunnel, err = host.OpenProbeTunnel(host.ProbeTunnelOptions{
		Local: path.Local, Remote: path.Remote, Ifindex: path.Ifindex, Port: path.TunnelPort,
		VNI: overlay.VNI(question.VNI), Checksum: path.Checksum, To: toMAC,
	})
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// close ends the session. It asks even after the end of a context: the remote is free then.
func (p *prober) close() error {
	m := p.open
	m.Kind = kindClose
	_, _ = p.ask(context.Background(), m, 1) // the remote's patience ends it too
	err := p.sock.close()
	if p.tunnel != nil {
		err = errors.Join(err, p.tunnel.Close())
	}
	return err
}

// ask sends a question until it is answered. After so many tries the error is
// os.ErrDeadlineExceeded.
func (p *prober) ask(ctx context.Context, m message, tries int) (message, error) {
	to := netip.AddrPortFrom(p.path.Remote, p.path.Port)
	for range tries {
		if err := ctx.Err(); err != nil {
			return m, err
		}
		// What cannot be sent now, while an adapter starts anew, can be later.
		sent := p.sock.send(to, m)
		for deadline := time.Now().Add(answerTimeout); ; {
			answer, from, err := p.sock.receive(deadline)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return m, err
			}
			if sent == nil && from == to && answer.Kind == m.Kind+1 && answer.Session == m.Session && answer.Burst == m.Burst {
				return answer, nil
			}
		}
	}
	return m, os.ErrDeadlineExceeded
}

// trials tries each mode: once with all shapes, then against the clock.
func (p *prober) trials(ctx context.Context, modes []Mode, set Setter) (trials []Trial, err error) {
	defer func() { // also when ctx has ended
		err = errors.Join(err, set(context.WithoutCancel(ctx), nil))
	}()
	for _, m := range modes {
		trials = append(trials, Trial{Mode: m})
	}
	for round := range rounds {
		for i := range trials {
			if round%2 == 1 {
				i = len(trials) - 1 - i
			}
			if err := p.try(ctx, &trials[i], round == 0, set); err != nil {
				return nil, fmt.Errorf("mode %s: %w", trials[i].Mode.Name, err)
			}
		}
	}
	return trials, nil
}

func (p *prober) try(ctx context.Context, t *Trial, first bool, set Setter) error {
	if err := set(ctx, t.Mode.Offloads(p.path.Interface)); err != nil {
		return err
	}
	if err := sleep(ctx, settleTime); err != nil {
		return err
	}
	if first {
		if err := p.verify(ctx, t); err != nil {
			return err
		}
	}
	return p.time(ctx, t)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// verify has the remote compare frames of every shape. What is missing on a busy host is
// sent again, more slowly: a mode that loses frames loses them every time.
func (p *prober) verify(ctx context.Context, t *Trial) error {
	pause := checkedPause
	for range checkedTries {
		sent, seen, _, err := p.during(ctx, true, func(next func(shape) error) error {
			return paced(ctx, pause, next)
		})
		if err != nil {
			return err
		}
		t.Sent, t.Missing, t.Duplicates = int(sent), int(sent)-int(seen.Seen), int(seen.Duplicate)
		t.Corrupt += int(seen.Corrupt)
		t.Uncut = seen.Uncut > 0
		if !t.loses() {
			break
		}
		pause *= 4
	}
	return nil
}

// paced sends frames of every shape, with a pause after each large one.
func paced(ctx context.Context, pause time.Duration, next func(shape) error) error {
	pace := time.NewTicker(pause)
	defer pace.Stop()
	for i := range checkedFrames * len(shapes) {
		s := shapes[i%len(shapes)]
		if err := next(s); err != nil {
			return err
		}
		if !s.large {
			continue
		}
		pace.Reset(pause)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pace.C:
		}
	}
	return nil
}

// time measures one burst of the first shape. It counts what arrived, in the time that both
// ends needed; what the remote did not get to read counts as arrived, like the rest.
func (p *prober) time(ctx context.Context, t *Trial) error {
	_, seen, took, err := p.during(ctx, false, func(next func(shape) error) error {
		units := p.pattern.units(shapes[0])
		most := min(burstBytes/(p.pattern.unit*units), maxUnits/units)
		for begin := time.Now(); most > 0 && time.Since(begin) < burstTime; most-- {
			if err := next(shapes[0]); err != nil {
				return err
			}
		}
		return p.drain()
	})
	if err != nil {
		return err
	}
	t.Corrupt += int(seen.Corrupt)
	speed := 0.0
	if seen.Frames > 0 {
		perFrame := float64(seen.Seen) / float64(seen.Frames)
		units := float64(seen.Seen) + float64(seen.Dropped)*perFrame
		speed = units * float64(8*p.pattern.unit) / max(took, time.Duration(seen.Nanos)).Seconds()
	}
	t.Speeds = append(t.Speeds, speed)
	return nil
}

// drain waits until the interface has taken everything.
func (p *prober) drain() error {
	look := time.NewTicker(20 * time.Microsecond)
	defer look.Stop()
	for deadline := time.Now().Add(drainTime); time.Now().Before(deadline); <-look.C {
		if done, err := p.tunnel.Drained(); done || err != nil {
			return err
		}
	}
	return nil
}

// during runs a burst: send calls next for each frame. It returns the units that were sent,
// what the remote saw of them, and how long sending took.
func (p *prober) during(ctx context.Context, checked bool, send func(next func(shape) error) error) (
	sent uint32, seen tally, took time.Duration, err error,
) {
	p.burst++
	m := p.open
	m.Kind, m.Burst = kindStart, p.burst
	if checked {
		m.Checked = 1
	}
	if _, err := p.ask(ctx, m, askTries); err != nil {
		return 0, seen, 0, lost(err)
	}
	begin := time.Now()
	err = send(func(s shape) error {
		n := uint32(p.pattern.units(s))
		if sent+n > maxUnits {
			return nil
		}
		frame := p.pattern.frame(p.buffer, s, p.burst, sent)
		sent += n
		return p.tunnel.Send(frame)
	})
	took = time.Since(begin)
	if err != nil {
		return sent, seen, took, fmt.Errorf("send: %w", err)
	}
	m.Kind, m.Units = kindStop, sent
	answer, err := p.ask(ctx, m, askTries)
	return sent, answer.tally, took, lost(err)
}

// lost says what a remote means that answered before.
func lost(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the remote no longer answers: %w", err)
	}
	return err
}
