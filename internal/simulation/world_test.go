package simulation

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/bgp"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/datapath/mapmodel"
	"github.com/selvage/selvage/internal/edge"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/evpn/speaker"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/liveness"
	"github.com/selvage/selvage/internal/overlay"
)

var reflector = netip.MustParseAddr("192.0.2.200")

// world is a host with an edge on it, and all that happens to it.
type world struct {
	t       *testing.T
	machine machine
	kernel  kernel.Kernel
	path    string // of the configuration
	opts    edge.RunOptions

	file    shape // as it is written
	written shape // as it was when it was written last
	inForce shape // as it must be in force
	broken  bool  // the file is not a configuration

	mu      sync.Mutex
	state   host.State
	nextIf  int // index of the next interface that comes
	lives   map[overlay.Pair]bfd.Result
	routes  map[evpn.Key]evpn.Update // that the reflector tells
	speaker *speaker.Options         // nil while there is no session

	changed, died chan struct{}
	linksLost     chan int
	hangups       chan os.Signal
	faults        map[string]*fault // by map, or "attach"
	failure       *failure          // nil: no path dies while tables are written

	log    []string
	stop   context.CancelFunc
	done   chan error
	client *api.Client
}

// fault has writes to a map fail.
type fault struct {
	left    int    // how often; -1 until it is cleared
	one     bool   // of one entry alone, the first that is written
	key     string // its key
	deletes bool
	fired   bool

	refusedDelete bool // one before did
}

var errRefused = errors.New("refused by the simulation: no space left on device")

func newWorld(t *testing.T, boot booted, seed uint64, s shape) *world {
	w := &world{
		t: t, machine: boot(t, seed), path: filepath.Join(t.TempDir(), "a.yaml"), nextIf: 10,
		lives: map[overlay.Pair]bfd.Result{}, routes: map[evpn.Key]evpn.Update{}, file: s.clone(), inForce: s.clone(),
		changed: make(chan struct{}, 1), died: make(chan struct{}, 1), linksLost: make(chan int, 1), hangups: make(chan os.Signal, 1), faults: map[string]*fault{},
	}
	w.kernel = w.machine.Kernel()
	w.machine.Refuse(mapmodel.Faults{Write: w.refuseWrite, Attach: w.refuseAttach})
	w.state = host.State{
		TEPs: map[netip.Addr]bool{tep: true, tep2: true}, Links: map[string]host.Link{}, Routes: map[overlay.Pair]host.Path{},
		ChecksumDevices: map[uint16]int{},
	}
	for i, name := range []string{"eth0", "eth1"} {
		w.state.Links[name] = host.Link{Name: name, Index: 2 + i, MTU: 1600, Up: true, MAC: overlay.MAC{2, 0, 0, 0xff, 0, byte(i)}}
	}
	for n := range maxPorts {
		w.addLink(n)
	}
	for n := range maxRemotes {
		w.setRoute(tep, remoteAddr(n), true)
		w.setRoute(tep2, secondAddr(n), true)
	}
	for n := range maxLearned {
		w.setRoute(tep, learnedAddr(n), true)
	}
	runtime := t.TempDir()
	w.opts = edge.RunOptions{
		ConfigPath: w.path, RuntimeDir: runtime, StateDir: t.TempDir(), PinRoot: w.machine.PinRoot(), Logger: slog.New(slog.DiscardHandler), Version: "simulation",
		Hangup: w.hangups, Linger: 100 * time.Millisecond,
		OpenHost:     func(string, *slog.Logger) (edge.Host, error) { return simHost{w}, nil },
		OpenLiveness: func(*slog.Logger) (liveness.Monitor, error) { return simLiveness{w}, nil },
		OpenSpeaker:  w.openSpeaker,
		OpenDataPath: func(c datapath.Config) (*edge.DataPath, error) {
			d, err := datapath.OpenWith(c, w.kernel)
			if err != nil {
				return nil, err
			}
			return edge.NewDataPath(d), nil
		},
	}
	w.write()
	return w
}

func (w *world) refuseWrite(x mapmodel.Write) error {
	w.mu.Lock()
	failure := w.failure
	w.mu.Unlock()
	failure.pass(w, x)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.faults[x.Map].fire(x.Delete, x.Key)
}

func (w *world) refuseAttach(mapmodel.Attach) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.faults["attach"].fire(false, nil)
}

// setFault has writes to a map fail in another way than before. mu is held.
func (w *world) setFault(table string, next fault) {
	if was := w.faults[table]; was != nil { // what it refused to remove may be there still
		next.refusedDelete = was.refusedDelete || was.deletes && was.fired
	}
	w.faults[table] = &next
}

func (f *fault) fire(isDelete bool, key []byte) error {
	if f == nil || f.left == 0 || isDelete != f.deletes {
		return nil
	}
	if f.one {
		if f.key == "" {
			f.key = string(key)
		}
		if f.key != string(key) {
			return nil
		}
	}
	if f.left > 0 {
		f.left--
	}
	f.fired = true
	return errRefused
}

// addLink has the interface of a port appear, with another index than any before.
func (w *world) addLink(port int) {
	name := interfaceOf(port)
	w.state.Links[name] = host.Link{Name: name, Index: w.nextIf, Kind: "veth", MTU: 1500, Up: true, PeerElsewhere: true, Segments: true, MAC: overlay.MAC{2, 0, 0, 0xfe, 0, byte(port)}}
	w.machine.AddInterface(w.nextIf)
	w.nextIf++
}

func (w *world) setRoute(local, remote netip.Addr, resolved bool) {
	index, name := 2, "eth0"
	if local == tep2 {
		index, name = 3, "eth1"
	}
	p := host.Path{NextHop: host.NextHop{Ifindex: index, Addr: remote}, Interface: name, MTU: 1600, SrcMAC: w.state.Links[name].MAC}
	if resolved {
		p.NextMAC = overlay.MAC{2, 0, 0, 0xfd, 0, remote.As4()[3]}
	}
	w.state.Routes[overlay.Pair{Local: local, Remote: remote}] = p
}

// write puts the configuration into its file.
func (w *world) write() {
	text := w.file.text()
	if w.broken {
		text += "  nonsense: true\n"
	}
	w.written = w.file.clone()
	if err := os.WriteFile(w.path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// start runs the edge, until its API answers.
func (w *world) start() {
	ctx, stop := context.WithCancel(context.Background())
	conns := make(chan net.Conn)
	w.opts.Listen = func(string, string) (net.Listener, error) {
		return &listener{conns, make(chan struct{}), sync.Once{}}, nil
	}
	w.stop, w.done = stop, make(chan error, 1)
	done := w.done
	go func() { done <- edge.Run(ctx, w.opts) }()
	w.client = api.DialBy("a", func(ctx context.Context) (net.Conn, error) {
		here, there := net.Pipe()
		select {
		case conns <- there:
			return here, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	synctest.Wait()
}

// end stops it; its data path stays.
func (w *world) end() error {
	w.stop()
	err := <-w.done
	w.speaker = nil
	return err
}

// listener takes connections of this process.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: "a", Net: "unix"} }

// hangup has the edge read its file again.
func (w *world) hangup() { w.hangups <- syscall.SIGHUP }

// mark fills a channel of one mark.
func mark(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// groNear and groFar are the ends of the device that coalesces.
const groNear, groFar = 5, 6

type simHost struct{ w *world }

func (h simHost) Observe(host.Want) (host.State, error) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	s := h.w.state
	s.Links, s.Routes, s.TEPs, s.ChecksumDevices = maps.Clone(s.Links), maps.Clone(s.Routes), maps.Clone(s.TEPs), maps.Clone(s.ChecksumDevices)
	return s, nil
}

func (h simHost) Links([]string) (map[string]host.Link, error) {
	s, err := h.Observe(host.Want{})
	return s.Links, err
}

func (h simHost) Ensure(want host.Desired) error {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.w.state.GRODevice = host.GRODevice{}
	if want.GRODevice != "" {
		h.w.state.GRODevice = host.GRODevice{Near: groNear, Far: groFar}
	}
	return nil
}

func (h simHost) Changed() <-chan struct{} { return h.w.changed }
func (h simHost) LinksLost() <-chan int    { return h.w.linksLost }
func (h simHost) Close() error             { return nil }

type simLiveness struct{ w *world }

func (l simLiveness) Set([]bfd.Peer) error        { return nil }
func (l simLiveness) SetService(bfd.Service)      {}
func (l simLiveness) Changed() <-chan struct{}    { return l.w.died }
func (l simLiveness) Leave(context.Context) error { return nil }
func (l simLiveness) LinkLost(int)                {}
func (l simLiveness) Close() error                { return nil }
func (l simLiveness) Results() map[overlay.Pair]bfd.Result {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return maps.Clone(l.w.lives)
}

// simSpeaker is the edge's end of the session with the reflector.
type simSpeaker struct{ w *world }

func (w *world) openSpeaker(_ context.Context, o speaker.Options) (bgp.Speaker, error) {
	w.mu.Lock()
	w.speaker = &o
	routes := maps.Clone(w.routes)
	w.mu.Unlock()
	go func() {
		o.Session(evpn.Session{Neighbour: reflector, Up: true})
		var list []evpn.Update
		for _, u := range routes {
			list = append(list, u)
		}
		o.Receive(list)
		o.Session(evpn.Session{Neighbour: reflector, Up: true, Complete: true})
	}()
	return simSpeaker{w}, nil
}

func (s simSpeaker) Configure(overlay.BGP) error     { return nil }
func (s simSpeaker) Announce([]evpn.Route) error     { return nil }
func (s simSpeaker) Withdraw([]evpn.Key) error       { return nil }
func (s simSpeaker) Neighbours() []speaker.Neighbour { return nil }
func (s simSpeaker) Sessions() []speaker.Neighbour   { return nil }
func (s simSpeaker) Established() (int, int)         { return 0, 0 }
func (s simSpeaker) Refresh(netip.Addr, bool) error  { return nil }
func (s simSpeaker) Fail(netip.Addr, string)         {}
func (s simSpeaker) Close(bool) error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.speaker = nil
	return nil
}
