package ports

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/losses"
	"github.com/selvage/selvage/lab/neighbour"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/lab/transit"
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
	cores   []int
	largest int // frame without tag
	tunnel  func(netip.Addr) *gen.Tunnel
	added   int // by it
}

// side is one side of the device.
type side struct {
	flag    string
	network netip.Prefix // of the hosts
	links   []link
}

// link is a port and what is behind it.
type link struct {
	port       topo.Port
	own        netip.Addr
	neighbours *neighbour.Responder
	device     net.HardwareAddr // where frames from this port go
}

// resolveTime is how long the device has to answer for its address.
const resolveTime = 3 * time.Second

// openSite reads the ports, refuses what cannot work, and finds the device.
func (c *Command) openSite(ctx context.Context, t Trials) (*site, error) {
	s := &site{vlan: c.VLAN, mode: c.XDP, cores: c.cores(), largest: largest(t), tunnel: c.tunnel, added: c.overhead()}
	s.sides[0].flag, s.sides[1].flag = "--tx", "--rx"
	for i, side := range []struct {
		ports   []Interface
		addrs   []netip.Prefix
		network netip.Prefix
	}{{c.Tx, c.TxAddress, c.TxNet}, {c.Rx, c.RxAddress, c.RxNet}} {
		s.sides[i].network = side.network
		if !side.network.IsValid() {
			s.sides[i].network = defaultNetwork(i, t.Family, side.addrs)
		}
		for k, name := range side.ports {
			port, err := topo.ReadPort(name.Namespace, name.Name)
			if err == nil {
				err = s.refuse(port)
			}
			if err != nil {
				return nil, errors.Join(fmt.Errorf("%s: %w", s.sides[i].flag, err), s.Close())
			}
			l := link{port: port}
			if len(side.addrs) > 0 {
				l.own = side.addrs[k].Addr()
			}
			if l.neighbours, err = neighbour.Open(port, c.speaksFor(&s.sides[i], side.addrs, k)); err != nil {
				return nil, errors.Join(err, s.Close())
			}
			s.sides[i].links = append(s.sides[i].links, l)
		}
	}
	find := s.resolve
	if c.L2 {
		find = s.pair
	}
	if err := errors.Join(c.checkHosts(s), s.checkNetworks(t)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := find(ctx, c); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// cores are the generator's.
func (c *Command) cores() []int {
	if len(c.Cores) == 0 {
		return []int{lastCore()}
	}
	return c.Cores
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
func (s *side) hosts() []netip.Addr { return gen.Hosts(s.network, gen.DefaultDestinations) }

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
func (s *site) refuse(p topo.Port) error {
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
	case p.Kind != "veth" && p.TxQueues < len(s.cores):
		return fmt.Errorf("%s has %d transmit queues for %d cores of the generator: use fewer --generator-cores, or more queues (ethtool -L)", p, p.TxQueues, len(s.cores))
	}
	return nil
}

// resolve asks the device for its MAC address at each port.
func (s *site) resolve(ctx context.Context, c *Command) error {
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	for i, addrs := range [][]netip.Prefix{c.TxAddress, c.RxAddress} {
		for k := range s.sides[i].links {
			l := &s.sides[i].links[k]
			gateway, _ := c.gateway(addrs[k]) // Check has found it
			var err error
			if l.device, err = l.neighbours.Resolve(ctx, gateway, addrs[k].Addr()); err != nil {
				return fmt.Errorf("--gateway: %w", err)
			}
		}
	}
	return nil
}

// pair has frames of each port go to its counterpart, and switches learn where both are.
func (s *site) pair(context.Context, *Command) error {
	for k := range s.sides[0].links {
		a, b := &s.sides[0].links[k], &s.sides[1].links[k]
		a.device, b.device = b.port.MAC, a.port.MAC
	}
	return s.announce()
}

// announce shows each port of a pair to the switches, whose tables forget.
func (s *site) announce() error {
	for i := range s.sides {
		for k, l := range s.sides[i].links {
			if err := l.neighbours.Announce(s.sides[i].hosts()[k]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Ends are the ports of a direction.
func (s *site) Ends(direction string) (transit.Ends, error) {
	from, to := s.sides[0], s.sides[1]
	if direction == reverse {
		from, to = to, from
	}
	e := transit.Ends{
		From: from.network, To: to.network, Namespace: from.links[0].port.Namespace, Cores: s.cores,
		SinkNamespace: to.links[0].port.Namespace, SinkMode: s.mode, Begin: func() (func() error, error) { return s.begin(from) },
	}
	if direction == both { // the sink at the port of the generator takes the place of what begin would put there
		e.SinkNamespace, e.LoopNamespace, e.LoopPlain, e.Begin = e.Namespace, e.SinkNamespace, true, nil
		for _, l := range to.links {
			e.Loop = append(e.Loop, l.port.Index)
			e.LoopRedirect = e.LoopRedirect || l.port.Kind == "veth"
		}
		to = from
	}
	for _, l := range from.links {
		p := gen.Port{Ifindex: l.port.Index, SrcMAC: l.port.MAC, DstMAC: l.device, VLAN: s.vlan}
		if direction != reverse {
			p.Tunnel = s.tunnel(l.own)
		}
		e.Ports = append(e.Ports, p)
	}
	for _, l := range to.links {
		e.Into = append(e.Into, l.port.Index)
	}
	return e, nil
}

// begin has a direction's drivers take frames from XDP: most do so only while they run a program themselves.
func (s *site) begin(from side) (stop func() error, err error) {
	stop = func() error { return nil }
	var indexes []int
	for _, l := range from.links {
		if l.port.Kind != "veth" { // which needs one at its other end
			indexes = append(indexes, l.port.Index)
		}
	}
	if len(indexes) == 0 {
		return stop, nil
	}
	sink, err := gen.NewSink(from.links[0].port.Namespace, indexes, gen.SinkOptions{Stream: 255})
	if err != nil {
		return stop, fmt.Errorf("the driver (%s) sends no frames of XDP without native XDP; use another card at the side of %s: %w", from.links[0].port.Driver, from.flag, err)
	}
	return sink.Close, nil
}

// Accounts is false: nobody sees the device's counters.
func (s *site) Accounts() bool { return false }

// Drops are the frames that the receive rings of this host had no room for: no loss of the device.
func (s *site) Drops(context.Context) (losses.Counts, error) {
	counts := losses.Counts{}
	for _, side := range s.sides {
		for _, l := range side.links {
			port, err := topo.ReadPort(l.port.Namespace, l.port.Name)
			if err != nil {
				return nil, err
			}
			counts["full ring of "+port.String()] = port.Overflows
		}
	}
	return counts, nil
}

// speed is the rate of a side's links together in Gbit/s, 0 where a driver does not know it.
func (s *side) speed() float64 {
	sum := 0
	for _, l := range s.links {
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
func (s *side) String() string {
	var names []string
	for _, l := range s.links {
		name := l.port.String()
		if l.port.Driver != "" {
			name += " (" + l.port.Driver + ")"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// answered is how many requests for neighbours were answered.
func (s *site) answered() (sum uint64) {
	for _, side := range s.sides {
		for _, l := range side.links {
			sum += l.neighbours.Answered()
		}
	}
	return sum
}

// Close ends the answers.
func (s *site) Close() error {
	var errs []error
	for _, side := range s.sides {
		for _, l := range side.links {
			if l.neighbours != nil {
				errs = append(errs, l.neighbours.Close())
			}
		}
	}
	return errors.Join(errs...)
}
