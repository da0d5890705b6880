package ports

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/doctor"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/losses"
	"github.com/selvage/selvage/lab/neighbour"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/lab/transit"
	"github.com/selvage/selvage/lab/transit/tester"
)

// Directions.
const (
	forward = "forward" // from --tx to --rx
	reverse = "reverse"
	both    = "both" // at once: there and back
)

// site is the ports at both sides of a device.
type site struct {
	sides   [2]side // --tx, --rx
	vlan    uint16
	mode    gen.Mode
	largest int // frame without tag
	tunnel  func(netip.Addr) *gen.Tunnel
	added   int // by it
}

// side is one side of the device.
type side struct {
	flag    string
	place   string           // of --host, "" is this host
	facts   result.Preflight // of another host
	tester  tester.Ports
	cores   []int        // of a generator there
	network netip.Prefix // of the hosts
	links   []link
}

// link is a port and what is behind it.
type link struct {
	port   topo.Port
	own    netip.Addr
	device net.HardwareAddr // where frames from this port go
}

// resolveTime is how long the device has to answer for its address.
const resolveTime = 3 * time.Second

// openSite reads the ports, refuses what cannot work, and finds the device.
func (c *Command) openSite(ctx context.Context, t Trials, o place.Options) (s *site, err error) {
	s = &site{vlan: c.VLAN, mode: c.XDP, largest: largest(t), tunnel: c.tunnel, added: c.overhead()}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	for i, names := range [][]Interface{c.Tx, c.Rx} {
		if err := s.sides[i].open(ctx, c, i, names, o); err != nil {
			return s, fmt.Errorf("%s: %w", s.sides[i].flag, err)
		}
	}
	for i, addrs := range [][]netip.Prefix{c.TxAddress, c.RxAddress} {
		if err := s.occupy(ctx, c, i, addrs, t.Family); err != nil {
			return s, err
		}
	}
	if err := errors.Join(c.checkHosts(s), s.checkNetworks(t)); err != nil {
		return s, err
	}
	if c.L2 {
		return s, s.pair(ctx)
	}
	return s, s.resolve(ctx, c)
}

// open reads the ports of side i.
func (d *side) open(ctx context.Context, c *Command, i int, names []Interface, o place.Options) (err error) {
	d.flag = []string{"--tx", "--rx"}[i]
	var all []tester.Name
	for _, name := range names {
		all = append(all, tester.Name(name))
	}
	if at := c.places()[i]; at == nil {
		d.tester, err = tester.Open(all)
	} else {
		d.place = at.String()
		session, failed := place.Open(ctx, *at, o)
		if failed != nil {
			return failed
		}
		if d.tester, err = tester.OpenAt(ctx, session, all); err == nil {
			var examined doctor.Examination
			examined, err = session.Examine(ctx)
			d.facts = result.Preflight{examined.Facts}
		}
	}
	if err != nil {
		return err
	}
	for _, port := range d.tester.Links() {
		d.links = append(d.links, link{port: port})
	}
	usable := d.tester.Host().Cores
	d.cores = c.Cores
	if len(d.cores) == 0 {
		d.cores = usable[len(usable)-1:] // interrupts tend to be on the first ones
	}
	return checkCores(d.cores, usable)
}

// occupy refuses ports that cannot be used and answers for the hosts at side i.
func (s *site) occupy(ctx context.Context, c *Command, i int, addrs []netip.Prefix, family int) error {
	d := &s.sides[i]
	d.network = []netip.Prefix{c.TxNet, c.RxNet}[i]
	if !d.network.IsValid() {
		d.network = defaultNetwork(i, family, addrs)
	}
	var answers []neighbour.Options
	for k := range d.links {
		if err := s.refuse(d, d.links[k].port); err != nil {
			return fmt.Errorf("%s: %w", d.flag, err)
		}
		if len(addrs) > 0 {
			d.links[k].own = addrs[k].Addr()
		}
		answers = append(answers, c.speaksFor(d, addrs, k))
	}
	return d.tester.Answer(ctx, answers)
}

// places are those of both sides, nil for this host.
func (c *Command) places() (at [2]*place.Place) {
	switch len(c.Host) {
	case 1:
		at[1] = &c.Host[0]
	case 2:
		at[0], at[1] = &c.Host[0], &c.Host[1]
	}
	return at
}

// oneClock says whether frames of a direction leave and arrive at one host.
func (s *site) oneClock(direction string) bool {
	return direction == both || s.sides[0].tester.Host().Boot == s.sides[1].tester.Host().Boot
}

// defaultNetwork is that of a side's addresses, or what RFC 2544 and RFC 5180 set aside.
func defaultNetwork(i, family int, addrs []netip.Prefix) netip.Prefix {
	switch {
	case len(addrs) > 0:
		return addrs[0].Masked()
	case family == 6:
		return netip.MustParsePrefix([]string{"2001:2:0:1::/64", "2001:2:0:2::/64"}[i])
	}
	return netip.MustParsePrefix([]string{"198.18.0.0/16", "198.19.0.0/16"}[i])
}

// hosts are those of a side's network that frames are from or for.
func (d *side) hosts() []netip.Addr { return gen.Hosts(d.network, gen.DefaultDestinations) }

// speaksFor is whom a port of a router's side answers for: its own address and the hosts.
func (c *Command) speaksFor(s *side, addrs []netip.Prefix, k int) neighbour.Options {
	o := neighbour.Options{Others: c.Gateway, VLAN: c.VLAN}
	if c.L2 {
		return o
	}
	hosts := s.hosts()
	if s.flag == "--tx" && c.overhead() > 0 {
		hosts = nil // those are in the tunnel
	}
	for _, addr := range append(hosts, addrs[k].Addr()) {
		o.Own = append(o.Own, netip.PrefixFrom(addr, addr.BitLen()))
	}
	return o
}

// checkHosts sees that no host is the device.
func (c *Command) checkHosts(s *site) error {
	for i := range s.sides {
		hosts := s.sides[i].hosts()
		for _, gateway := range c.Gateway {
			for _, host := range hosts {
				if host == gateway {
					return fmt.Errorf("--gateway: %s is among the hosts %s … %s at the side of %s: use the last address of the network for the device, or other networks with --tx-net and --rx-net",
						gateway, hosts[0], hosts[len(hosts)-1], s.sides[i].flag)
				}
			}
		}
	}
	return nil
}

// checkNetworks sees that the networks have room for the hosts of both directions.
func (s *site) checkNetworks(t Trials) error {
	a, b := s.sides[0].network, s.sides[1].network
	for _, pair := range [][2]netip.Prefix{{a, b}, {b, a}} {
		stream := gen.Stream{Frame: s.largest, Flows: t.Flows, Family: t.Family, From: pair[0], To: pair[1]}
		if err := stream.Check(); err != nil {
			return fmt.Errorf("%w: name larger ones with --tx-net and --rx-net", err)
		}
	}
	return nil
}

// refuse says why a port cannot be used.
func (s *site) refuse(d *side, p topo.Port) error {
	const header = 14
	need := s.largest - gen.FCS - header + s.added
	command := "ip link set dev " + p.Name
	if p.Namespace != "" {
		command = "ip -n " + p.Namespace + " link set dev " + p.Name
	}
	switch {
	case len(p.MAC) != 6:
		return fmt.Errorf("%s has no Ethernet address", p)
	case !p.Up:
		return fmt.Errorf("%s is down: set it up first (%s up)", p, command)
	case !p.Carrier:
		return fmt.Errorf("%s has no carrier: is it connected, and is the device's interface up?", p)
	case p.Program != 0:
		return fmt.Errorf("%s has an XDP program already, number %d: stop who put it there, or detach it (%s xdp off)", p, p.Program, command)
	case p.Master != "":
		return fmt.Errorf("%s is a port of %s: take it out (%s nomaster), or use another", p, p.Master, command)
	case len(p.Addrs) > 0:
		return fmt.Errorf("%s has an address of this host, %s: the load would take the interface from who uses it. Use one without addresses", p, p.Addrs[0])
	case p.MTU < need:
		return fmt.Errorf("frames of %d bytes need an MTU of %d at %s, which has %d: raise it (%s mtu %d), or use smaller --sizes", s.largest+s.added, need, p, p.MTU, command, need)
	case p.Kind != "veth" && p.TxQueues < len(d.cores):
		return fmt.Errorf("%s has %d transmit queues for %d cores of the generator: use fewer --generator-cores, or more queues (ethtool -L)", p, p.TxQueues, len(d.cores))
	}
	return nil
}

// resolve asks the device for its MAC address at each port.
func (s *site) resolve(ctx context.Context, c *Command) error {
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	for i, addrs := range [][]netip.Prefix{c.TxAddress, c.RxAddress} {
		for k := range s.sides[i].links {
			gateway, _ := c.gateway(addrs[k]) // Check has found it
			mac, err := s.sides[i].tester.Resolve(ctx, tester.Question{Port: k, Addr: gateway, From: addrs[k].Addr()})
			if err != nil {
				return fmt.Errorf("--gateway: %w", err)
			}
			s.sides[i].links[k].device = mac
		}
	}
	return nil
}

// pair has frames of each port go to its counterpart, and switches learn where both are.
func (s *site) pair(ctx context.Context) error {
	for k := range s.sides[0].links {
		a, b := &s.sides[0].links[k], &s.sides[1].links[k]
		a.device, b.device = b.port.MAC, a.port.MAC
	}
	return s.announce(ctx)
}

// announce shows each port of a pair to the switches, whose tables forget.
func (s *site) announce(ctx context.Context) error {
	for i := range s.sides {
		hosts := s.sides[i].hosts()
		for k := range s.sides[i].links {
			if err := s.sides[i].tester.Announce(ctx, k, hosts[k]); err != nil {
				return err
			}
		}
	}
	return nil
}

// towards are the sides that frames of a direction leave and arrive at.
func (s *site) towards(direction string) (from, to *side) {
	if direction == reverse {
		return &s.sides[1], &s.sides[0]
	}
	return &s.sides[0], &s.sides[1]
}

// Ends are the ports of a direction.
func (s *site) Ends(direction string) (transit.Ends, error) {
	from, to := s.towards(direction)
	e := transit.Ends{From: from.network, To: to.network}
	if direction == both { // the sink at the port of the generator takes the place of what accept would put there
		loop := to
		e.Stand = append(e.Stand, func() (func() error, error) {
			o := gen.ReflectorOptions{SinkOptions: gen.SinkOptions{Mode: s.mode}, Plain: true, Redirect: loop.isVeth()}
			return loop.tester.Reflector(loop.indexes(), o)
		})
		to = from
	} else {
		e.Stand = append(e.Stand, from.accept)
	}
	o := tester.SenderOptions{Cores: from.cores}
	for _, l := range from.links {
		p := gen.Port{Ifindex: l.port.Index, SrcMAC: l.port.MAC, DstMAC: l.device, VLAN: s.vlan}
		if direction != reverse {
			p.Tunnel = s.tunnel(l.own)
		}
		o.Ports = append(o.Ports, p)
	}
	e.Send = func(stream gen.Stream) (transit.Sender, error) {
		o.Stream = stream
		return from.tester.Sender(o)
	}
	e.Sink = func(o gen.SinkOptions) (transit.Sink, error) {
		o.Mode = s.mode
		return to.tester.Sink(to.indexes(), o)
	}
	return e, nil
}

func (d *side) indexes() (all []int) {
	for _, l := range d.links {
		all = append(all, l.port.Index)
	}
	return all
}

// isVeth says whether any of its ports is one.
func (d *side) isVeth() bool {
	return slices.ContainsFunc(d.links, func(l link) bool { return l.port.Kind == "veth" })
}

// accept has drivers take frames from XDP: most do so only while they run a program themselves.
func (d *side) accept() (stop func() error, err error) {
	stop = func() error { return nil }
	var indexes []int
	for _, l := range d.links {
		if l.port.Kind != "veth" { // which needs one at its other end
			indexes = append(indexes, l.port.Index)
		}
	}
	if len(indexes) == 0 {
		return stop, nil
	}
	sink, err := d.tester.Sink(indexes, gen.SinkOptions{Stream: 255})
	if err != nil {
		return nil, fmt.Errorf("the driver (%s) sends no frames of XDP without native XDP; use another card at the side of %s: %w", d.links[0].port.Driver, d.flag, err)
	}
	return sink.Close, nil
}

// Accounts is false: nobody sees the device's counters.
func (s *site) Accounts() bool { return false }

// Drops are the frames that the receive rings of the tester had no room for: no loss of the device.
func (s *site) Drops(ctx context.Context) (losses.Counts, error) {
	counts := losses.Counts{}
	for _, d := range s.sides {
		overflows, err := d.tester.Overflows(ctx)
		if err != nil {
			return nil, err
		}
		for port, n := range overflows {
			counts["full ring of "+port] = n
		}
	}
	return counts, nil
}

// speed is the rate of a side's links together in Gbit/s, 0 where a driver does not know it.
func (d *side) speed() float64 {
	sum := 0
	for _, l := range d.links {
		if l.port.Mbps == 0 {
			return 0
		}
		sum += l.port.Mbps
	}
	return float64(sum) / 1000
}

// line is the rate in Gbit/s that both sides have, 0 where one is not known.
func (s *site) line() float64 {
	if a, b := s.sides[0].speed(), s.sides[1].speed(); a > 0 && b > 0 {
		return min(a, b)
	}
	return 0
}

// String lists the ports of a side.
func (d *side) String() string {
	var names []string
	for _, l := range d.links {
		name := l.port.String()
		if l.port.Driver != "" {
			name += " (" + l.port.Driver + ")"
		}
		names = append(names, name)
	}
	if d.place != "" {
		return strings.Join(names, ", ") + " at " + d.place
	}
	return strings.Join(names, ", ")
}

// answered is how many requests for neighbours were answered.
func (s *site) answered(ctx context.Context) (sum uint64, err error) {
	for _, d := range s.sides {
		n, failed := d.tester.Answered(ctx)
		sum, err = sum+n, errors.Join(err, failed)
	}
	return sum, err
}

// Close ends the answers and the sessions with other hosts.
func (s *site) Close() error {
	var errs []error
	for _, d := range s.sides {
		if d.tester != nil {
			errs = append(errs, d.tester.Close())
		}
	}
	return errors.Join(errs...)
}
