package datapath

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
	"github.com/selvage/selvage/test/fuzz/forbidden"
	"github.com/selvage/selvage/test/fuzz/frames"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/tier"
)

var (
	fuzzCount = flag.Uint64("frames", 0, "how many frames TestFramesNeverForwarded tries in all (0: 10^8 in make test-long, else as many as take seconds)")
	fuzzFirst = flag.Uint64("frames-first", 0, "number of the first of them")
)

const (
	fuzzLong  = 100_000_000
	fuzzShort = 100_000
	fuzzSeed  = 1
	// fuzzLook is after how many frames what only counters tell is looked at.
	fuzzLook = 1 << 14
	shortest = 14 + 40
	quietVNI = 900
	// fuzzKept are frames that once found something: a world, where they come in, bytes.
	fuzzKept = "testdata/frames.txt"
)

// fuzzedWorld is what frames are offered to, and what the reference knows of it.
type fuzzedWorld struct {
	name string
	*world
	policy forbidden.Config
	doors  []door
}

// door is where frames come in.
type door struct {
	device string
	prog   kernel.Program
	xdp    bool
}

// fuzzWorlds are few worlds with everything. In all, p0 may use alice's addresses only, and
// nothing is ever offered from the segment quiet, at VLAN 99 of p2: nothing may come out there.
func fuzzWorlds(t *testing.T) (list []*fuzzedWorld) {
	fw := openFirewall(false)
	fw.Default, fw.Rules = overlay.Drop, []overlay.Rule{ruleOf(1, "allow out svc tcp/80"), ruleOf(2, "allow in svc tcp/80")}
	all := ways()
	bridged := func(w *world) *world {
		w.tables.Segments[0].KeepTags = true
		w.tables.Ports = append(w.tables.Ports, w.vlanPort("s0", "blue", 10), w.vlanPort("s0", "green", 20))
		return w
	}
	list = append(list,
		&fuzzedWorld{name: "routed", world: transitWorld(t, all[0])},
		&fuzzedWorld{name: "routed6", world: transitWorld(t, all[6])},
		&fuzzedWorld{name: "nat", world: natWorld(t, all[3], withTransit)},
		&fuzzedWorld{name: "firewall", world: firewallWorldBy(t, all[1], fw, withTransit)},
		&fuzzedWorld{name: "bridged", world: bridged(newWorld(t, underIPv6))},
	)
	for _, w := range list {
		w.prepare(t)
	}
	return list
}

func (w *world) vlanPort(dev, segment string, vlan uint16) fib.Port {
	p := w.port(dev, segment)
	p.Name, p.VLAN = fmt.Sprintf("%s.%d", dev, vlan), vlan
	return p
}

// prepare adds the segment that is quiet, and the guard, and asks the tables what the reference
// has to know.
func (w *fuzzedWorld) prepare(t *testing.T) {
	t.Helper()
	w.tables.Segments = append(slices.Clone(w.tables.Segments), overlay.Segment{
		Name: "quiet", VNI: quietVNI, Tunnel: w.tables.Segments[0].Tunnel, Remotes: w.family.remotes[1:],
	})
	w.tables.Ports = append(slices.Clone(w.tables.Ports), w.vlanPort("p2", "quiet", 99))
	w.tables.Ports[0].Allowed = &overlay.Allowed{
		MACs:      []overlay.MAC{macOf(alice)},
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.1.10/32"), netip.MustParsePrefix("2001:db8:1::a/128")},
	}
	w.apply(t)
	w.policy = w.forbids()
	w.doors = []door{{"u0", w.dp.prog.objs.FromUnderlay, false}, {"u0", w.dp.prog.objs.FromGro, false}}
	for _, dev := range []string{"p0", "p1", "p2", "s0"} {
		w.doors = append(w.doors, door{dev, w.dp.prog.objs.FromPort, false})
	}
	if w.cfg.Transit {
		w.doors = append(w.doors, door{"u0", w.transitOf("u0"), true}, door{"s0", w.transitOf("s0"), true})
	}
}

// forbids is what a reader of the configuration would say.
func (w *world) forbids() forbidden.Config {
	c := forbidden.Config{
		TEPs: append(slices.Clone(w.cfg.TEPs), w.family.remotes[:]...), Own: w.cfg.TEPs, NVGRE: w.cfg.NVGRE,
		UDPPorts: map[uint16]forbidden.Encapsulation{},
		Options:  []uint32{0x0103<<8 | 0x02, 0x0104<<8 | 0x83},
	}
	for _, p := range w.cfg.UDPPorts {
		c.UDPPorts[p.Port] = map[overlay.Encapsulation]forbidden.Encapsulation{overlay.VXLAN: forbidden.VXLAN, overlay.Geneve: forbidden.Geneve}[p.Encapsulation]
	}
	for _, s := range w.tables.Segments {
		to := forbidden.Segment{Name: s.Name, VNI: uint32(s.VNI), UDPPort: s.Tunnel.UDPPort, Remotes: s.Remotes, KeepTags: s.KeepTags}
		if s.Gateway != nil {
			to.Router, to.GatewayMAC = s.Gateway.Router, forbidden.MAC(s.Gateway.MAC)
			for _, a := range s.Gateway.Addresses {
				to.GatewayAddrs = append(to.GatewayAddrs, a.Addr())
			}
		}
		c.Segments = append(c.Segments, to)
	}
	for _, p := range w.tables.Ports {
		port := forbidden.Port{Device: strings.Split(p.Name, ".")[0], VLAN: p.VLAN, Segment: p.Segment, Uplink: p.Uplink}
		if p.Allowed != nil {
			port.Prefixes = p.Allowed.Addresses
			for _, m := range p.Allowed.MACs {
				port.MACs = append(port.MACs, forbidden.MAC(m))
			}
		}
		port.Firewall = w.tables.Firewall != nil && slices.ContainsFunc(firewallPlaces, func(f policy.Place) bool { return f.Port == p.Name })
		c.Ports = append(c.Ports, port)
	}
	for _, prefix := range []string{"10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24", "2001:db8:1::/64", "2001:db8:2::/64", "2001:db8:3::/64"} {
		c.Inside = append(c.Inside, netip.MustParsePrefix(prefix))
	}
	return c
}

// network is what frames are made of: what the tables have, and what an attacker would try.
func (w *world) network() frames.Network {
	n := frames.Network{
		Underlay: frames.MAC(w.dev["u0"].HardwareAddr), Own: w.family.tep, TEPs: append(slices.Clone(w.family.remotes[:]), w.family.remotes[0], w.family.remotes[0], w.family.unknown),
		VLANs: []uint16{0, 0, 10, 10, 20, 30, 99, 4095},
		Homes: map[string]frames.Home{
			"p0": homeOf(alice, gatewayMAC, "10.0.1.10", "2001:db8:1::a"), "p1": homeOf(carol, gatewayMAC, "10.0.1.12", "2001:db8:1::c"),
			"p2": homeOf(dave, gatewayMAC, "10.0.2.13", "2001:db8:2::d"), "s0": homeOf(ispMAC, uplinkMAC, "203.0.113.5", "2001:db8:77::5"),
			"u0": homeOf(bob, gatewayMAC, "10.0.1.11", "2001:db8:1::b"),
		},
	}
	for _, s := range w.tables.Segments {
		if s.VNI != 0 && s.VNI != quietVNI {
			n.Tunnels = append(n.Tunnels, frames.Tunnel{VNI: uint32(s.VNI), UDPPort: s.Tunnel.UDPPort, Geneve: s.Tunnel.Encapsulation == overlay.Geneve})
		}
	}
	for _, s := range []string{alice, alice, alice, bob, carol, dave, erin, nobody, gatewayMAC, gatewayMAC, gatewayMAC, l3MAC, uplinkMAC, uplinkMAC, ispMAC, farMAC, overlay.EgressMAC.String()} {
		n.MACs = append(n.MACs, frames.MAC(macOf(s)))
	}
	for _, s := range []string{
		"10.0.1.10", "10.0.1.10", "10.0.1.10", "10.0.1.11", "10.0.1.12", gateway4, "10.0.2.13", "10.0.2.14", greenGateway4, "10.0.3.7", uplink4, "198.51.100.254", "203.0.113.5",
		"203.0.113.66", "10.9.1.1", "10.9.2.1", "0.0.0.0", "255.255.255.255", "127.0.0.1", "169.254.1.1", "224.0.0.251", "192.0.2.1", "192.0.2.2", webFirst4, two4,
	} {
		n.IPv4 = append(n.IPv4, netip.MustParseAddr(s))
	}
	for _, s := range []string{
		"2001:db8:1::a", "2001:db8:1::a", "2001:db8:1::a", "2001:db8:1::b", "2001:db8:1::c", gateway6, "2001:db8:2::d", "2001:db8:2::e", greenGateway6, "2001:db8:3::7", uplink6,
		"2001:db8:ff::fe", "2001:db8:77::5", "2001:db8:9:1::1", "::", "::1", "fe80::a", "fe80::1", "ff02::1", "ff02::2", "ff02::1:ff00:b", "2001:db8::1", "2001:db8::2", webFirst6, two6,
	} {
		n.IPv6 = append(n.IPv6, netip.MustParseAddr(s))
	}
	return n
}

func homeOf(mac, gateway, four, six string) frames.Home {
	return frames.Home{MAC: frames.MAC(macOf(mac)), Gateway: frames.MAC(macOf(gateway)), IPv4: netip.MustParseAddr(four), IPv6: netip.MustParseAddr(six)}
}

// TestFramesNeverForwarded offers frames of every kind, and broken ones, to every program. What
// the reference refuses is never forwarded, and no frame comes out in another tenant's segment.
//
//	go test ./internal/datapath -run TestFramesNeverForwarded -frames 1000000
func TestFramesNeverForwarded(t *testing.T) {
	worlds := fuzzWorlds(t)
	count := *fuzzCount
	if count == 0 {
		count = fuzzShort
		if tier.IsLong() {
			count = fuzzLong
		}
	}
	begin := time.Now()
	cpus := usableCPUs(t)
	each := count / uint64(len(worlds))
	for _, w := range worlds {
		var owned sync.WaitGroup
		share := each / uint64(len(cpus))
		for i, cpu := range cpus {
			f := &fuzzing{t: t, w: w, maker: frames.New(w.network(), fuzzSeed), rules: make(map[string]uint64), failed: make(map[string]uint64)}
			first := *fuzzFirst + uint64(i)*share
			owned.Go(func() { w.do(t, func() { f.pinned(cpu, func() { f.series(first, share) }) }) })
		}
		owned.Wait()
	}
	took := time.Since(begin)
	t.Logf("seed %d, frames %d to %d in %d worlds: %v, %.0f frames/s", fuzzSeed, *fuzzFirst, *fuzzFirst+count/uint64(len(worlds)), len(worlds), took, float64(count)/took.Seconds())
}

// TestKeptFrames offers those that once found something.
func TestKeptFrames(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(fuzzKept)
	must(t, err)
	worlds := fuzzWorlds(t)
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] == "#" {
			continue
		}
		frame, err := hex.DecodeString(words[2])
		must(t, err)
		for _, w := range worlds {
			if w.name != words[0] {
				continue
			}
			f := &fuzzing{t: t, w: w, rules: make(map[string]uint64), failed: make(map[string]uint64)}
			w.do(t, func() {
				f.pinned(usableCPUs(t)[0], func() {
					for _, d := range w.doors {
						if d.device == words[1] && d.prog != w.dp.prog.objs.FromGro {
							w.place(frame, d.device)
							f.offer(d, frame, 0)
						}
					}
				})
			})
		}
	}
}

// place makes a frame of the underlay one for this run's device.
func (w *world) place(frame []byte, device string) {
	if device == "u0" {
		copy(frame, w.dev["u0"].HardwareAddr)
	}
}

func usableCPUs(t *testing.T) (list []int) {
	t.Helper()
	var set unix.CPUSet
	must(t, unix.SchedGetaffinity(0, &set))
	for cpu := range 64 * len(set) {
		if set.IsSet(cpu) {
			list = append(list, cpu)
		}
	}
	return list
}

// fuzzing is one thread's part.
type fuzzing struct {
	t      *testing.T
	w      *fuzzedWorld
	maker  *frames.Maker
	run    *runner
	rules  map[string]uint64 // frames that the reference refused
	failed map[string]uint64 // by what was wrong
	passed uint64            // frames that were forwarded
}

// pinned runs f on one core, whose counters are then those of its frames.
func (f *fuzzing) pinned(cpu int, do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	one.Set(cpu)
	err := errors.Join(unix.SchedGetaffinity(0, &before), unix.SchedSetaffinity(0, &one))
	if err != nil {
		f.t.Error(err)
		return
	}
	f.run = newRunner(f.w.dp.Traffic.maps.Events, cpu)
	do()
	if err := unix.SchedSetaffinity(0, &before); err != nil {
		f.t.Error(err)
	}
}

func (f *fuzzing) series(first, count uint64) {
	for n := first; n < first+count; n++ {
		d := f.w.doors[n%uint64(len(f.w.doors))]
		f.offer(d, f.maker.Frame(n, d.device, d.device == "u0"), n)
		if n%fuzzLook == fuzzLook-1 {
			f.quiet(n)
		}
	}
	f.quiet(first + count)
	f.t.Logf("world %s, core %d: %d of %d forwarded, refused %v, wrong %v", f.w.name, f.run.cpu, f.passed, count, f.rules, f.failed)
	if f.passed < count/50 {
		f.t.Errorf("world %s: %d of %d frames were forwarded, too few to say anything", f.w.name, f.passed, count)
	}
}

// offer gives a frame to a program and compares with the reference.
func (f *fuzzing) offer(d door, frame []byte, n uint64) {
	entry := forbidden.FromPort
	if d.device == "u0" {
		entry = forbidden.FromUnderlay
	}
	o := f.w.policy.Of(entry, d.device, frame)
	if o.Segment == "quiet" {
		return
	}
	if d.prog == f.w.dp.prog.objs.FromGro && o.Rule == "" {
		o.Rule = "not coalesced by the edge"
	}
	var before [len(ownEvents)]uint64
	if o.Rule != "" {
		f.rules[o.Rule]++
		before = f.own()
	}
	got, out, err := f.run.run(d.prog, d.xdp, f.w.dev[d.device].Index, frame)
	if errors.Is(err, unix.EINVAL) && len(frame) < shortest { // as the kernel refuses an IP header that is cut
		return
	}
	if err != nil {
		f.fail(d, frame, n, nil, "run: %v", err)
		return
	}
	passed := got == forwarded || d.xdp && got != xdpDrop && got != xdpPass
	if passed {
		f.passed++
	}
	switch {
	case o.Rule == "" && passed && o.Segment != "":
		underlay := f.w.dev["u0"].HardwareAddr
		if len(out) >= 14 && slices.Equal(out[6:12], underlay) {
			if leak := f.w.policy.Leak(o, out); leak != "" {
				f.fail(d, frame, n, out, "from %s it went %s", o.Segment, leak)
			}
		}
	case o.Rule != "" && passed:
		if f.own() == before {
			f.fail(d, frame, n, out, "forwarded in spite of %q", o.Rule)
		}
	case o.Rule != "":
		if now := f.own(); now[flooded] != before[flooded] && now[requested] == before[requested] {
			f.fail(d, frame, n, out, "flooded in spite of %q", o.Rule)
		}
	}
}

// ownEvents tell that what leaves is not the frame but a packet of the edge's own, or that the
// frame waits. The first two are of floods.
var ownEvents = [...]bpfEvent{
	bpfEventEVENT_FLOOD_COPY, bpfEventEVENT_NEIGH_REQUESTED, bpfEventEVENT_PROXY_REPLIED, bpfEventEVENT_ICMP_SENT, bpfEventEVENT_RESET_SENT, bpfEventEVENT_REORDER_HELD,
}

const flooded, requested = 0, 1

func (f *fuzzing) own() (list [len(ownEvents)]uint64) {
	for i, e := range ownEvents {
		n, err := f.run.event(e)
		if err != nil {
			f.t.Error(err)
		}
		list[i] = n
	}
	return list
}

// quiet wants that nothing came out at the port of the tenant that says nothing.
func (f *fuzzing) quiet(n uint64) {
	ports, err := f.w.dp.Traffic.Ports()
	if err != nil {
		f.t.Error(err)
		return
	}
	if tx := ports["p2.99"].Tx; tx.Packets != 0 {
		f.t.Errorf("world %s, seed %d, before frame %d: %d packets came out in the segment quiet", f.w.name, fuzzSeed, n, tx.Packets)
	}
}

// fail tells of the first frame of each kind.
func (f *fuzzing) fail(d door, frame []byte, n uint64, out []byte, format string, args ...any) {
	failure := fmt.Sprintf(format, args...)
	if f.failed[failure]++; f.failed[failure] > 1 {
		return
	}
	what := "tc"
	if d.xdp {
		what = "XDP"
	}
	pkttest.Errorf(f.t, []pkttest.Named{{Name: "in", Bytes: frame}, {Name: "out", Bytes: out}}, "world %s, %s at %s, seed %d, frame %d: %s\nkeep it in %s:\n%s %s %s",
		f.w.name, what, d.device, fuzzSeed, n, failure, fuzzKept, f.w.name, d.device, hex.EncodeToString(frame))
}
