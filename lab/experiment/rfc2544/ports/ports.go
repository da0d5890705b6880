// Package ports is lab rfc2544 through a device between interfaces that exist: what it forwards
// without loss and with little, its latency, and what set the limit.
//
// Its invariant: nothing of this host is changed but by file descriptors of this process, so a killed run
// leaves nothing behind. Do not use it for a device that the lab builds; that is package rfc2544.
package ports

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/selvage/selvage/lab/cores"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/turns"
	"github.com/selvage/selvage/lab/watch"
)

// Name is in the results. The command is that of lab rfc2544.
const Name = "rfc2544-ports"

// Experiment is this one.
func Experiment() experiment.Experiment {
	return experiment.Experiment{Name: Name, Summarise: summarise, Metrics: figures, Verdict: verdict, Page: page, Table: table}
}

// Group is that of the flags for ports.
const Group = "Ports"

// Command are the flags of lab rfc2544 for a device between ports.
type Command struct {
	Tx        []Interface    `group:"Ports" placeholder:"IF" help:"Measure a device between interfaces that exist instead: where frames leave, IF or ns:NAME:IF. Flows take turns over several."`
	Rx        []Interface    `group:"Ports" placeholder:"IF" help:"Where they arrive behind the device."`
	Host      []place.Place  `group:"Ports" placeholder:"PLACE" help:"Where the ports of --rx are, if not on this host: ssh:[USER@]HOST[:PORT], ns:NAME or pid:N. With two, the first is where those of --tx are."`
	DUT       string         `name:"dut" group:"Ports" placeholder:"TEXT" help:"What the device is, for the report."`
	Reverse   bool           `group:"Ports" help:"Measure the other direction too, one after the other."`
	Both      bool           `group:"Ports" help:"Measure both directions at once too: the ports of --rx loop frames back, and each crosses the device twice."`
	L2        bool           `name:"l2" group:"Ports" help:"The device is a switch, a bridge or a wire: frames go from the MAC address of one port to that of the other. By default it routes."`
	TxAddress []netip.Prefix `group:"Ports" placeholder:"CIDR" help:"Address of the generator at each port of --tx, which nobody has. It is answered for while the run lasts."`
	RxAddress []netip.Prefix `group:"Ports" placeholder:"CIDR" help:"The same at --rx."`
	Gateway   []netip.Addr   `group:"Ports" placeholder:"ADDR" help:"The device's addresses on these networks, one for each port."`
	TxNet     netip.Prefix   `group:"Ports" placeholder:"CIDR" help:"Network of the hosts at the side of --tx. By default that of --tx-address; another one has to be routed to that address by the device."`
	RxNet     netip.Prefix   `group:"Ports" placeholder:"CIDR" help:"The same for --rx."`
	Genome    string         `name:"genome" group:"Ports" placeholder:"LETTERS" help:"Add a mix of sizes in this order, as an IMIX Genome (RFC 6985): a is 64 bytes, b 128, c 256, d 512, e 1024, f 1280, g 1518, h 2112, i 9000, j 16000."`
	VLAN      uint16         `name:"vlan" group:"Ports" placeholder:"ID" help:"Tag of all frames, 4 bytes more than their size."`
	Encap     Encap          `group:"Ports" placeholder:"ENCAP:VNI@TEP" help:"The device's side at --tx is an overlay: frames leave --tx in a tunnel from --tx-address to the device's TEP, vxlan:100@192.0.2.1, geneve:100@… or nvgre:100@…, from hosts of --tx-net."`
	EncapMAC  string         `name:"encap-mac" group:"Ports" placeholder:"MAC" help:"The device's MAC address inside the tunnel."`

	EncapOptions Options `name:"encap-options" group:"Ports" placeholder:"HEX" help:"Options of Geneve, whole ones."`

	XDP    gen.Mode      `name:"xdp" group:"Ports" enum:"native,generic" default:"native" help:"How the sink takes frames in: ${enum}. Generic works with any driver, at a far lower rate."`
	Cores  []int         `name:"generator-cores" group:"Ports" placeholder:"CORE" help:"Cores of the generator, which share the flows; the last usable one by default."`
	Exceed float64       `name:"exceed-ratio" group:"Ports" placeholder:"SHARE" default:"0" help:"Share of trial time that may lose more at a rate that still counts (RFC 9971, which recommends 0.5 with a duration sum of several trials); ${default}."`
	Sum    time.Duration `name:"duration-sum" group:"Ports" placeholder:"TIME" help:"Time of final trials that a rate needs (RFC 9971); one trial by default."`

	CatchUp time.Duration `name:"catch-up" group:"Ports" placeholder:"TIME" default:"100us" help:"Delay that the generator makes up for by sending faster; what is later is unsent. A virtual machine without cores of its own needs milliseconds, and loads the device in bursts then; ${default}."`

	Boxes watch.Flags `embed:"" group:"Ports"`
	SSH   string      `name:"ssh" group:"Ports" default:"ssh" placeholder:"COMMAND" help:"The ssh program for --host and --watch-device, with further arguments; ${default}."`

	Sudo     place.Sudo `group:"Ports" enum:"no,yes,pass" default:"no" help:"How the user becomes root at --host: ${enum}. With pass, the password is asked for, by the program in $$SUDO_ASKPASS if there is one."`
	Programs string     `group:"Ports" type:"existingdir" placeholder:"DIR" help:"Directory with selvage-lab-linux-ARCH for hosts of another architecture; where this program is by default."`

	Given    bool `kong:"-"` // any flag of ports
	LineRate bool `kong:"-"` // --line-rate was given, and goes before what drivers say
}

// Trials are the flags of lab rfc2544 that have a meaning here.
type Trials struct {
	Sizes                                    []int
	Mixes                                    []Mix
	Flows, Family                            int
	Binary, Quick                            bool
	Tolerance, MinRate, MaxRate, LineRate    float64 // %, %, %, Gbit/s
	Retries, Rounds, LatencyTrials           int
	Duration, InitialDuration, Drain, Settle time.Duration
	LatencyDuration                          time.Duration
	LossCurve, BackToBack                    bool
}

// Mix is several sizes by turns.
type Mix struct {
	Name   string // in the name of the case
	Shares []gen.Share
	Order  []uint8 // empty spreads them evenly
}

// Mixes are imix, unless it is empty, and that of --genome.
func (c *Command) Mixes(imix []gen.Share) (all []Mix) {
	if len(imix) > 0 {
		all = append(all, Mix{Name: "imix", Shares: imix})
	}
	if c.Genome != "" {
		shares, order, _ := gen.Genome(c.Genome) // Check says what is wrong with it
		all = append(all, Mix{Name: "genome", Shares: shares, Order: order})
	}
	return all
}

// checkMixes sees that the generator can make them.
func (t Trials) checkMixes(genome string) error {
	if _, _, err := gen.Genome(genome); err != nil {
		return fmt.Errorf("--genome: %w", err)
	}
	for _, m := range t.Mixes {
		if err := (gen.Stream{IMIX: m.Shares, Order: m.Order, Flows: t.Flows, Family: t.Family}).Check(); err != nil {
			return fmt.Errorf("--%s: %w", m.Name, err)
		}
	}
	return nil
}

// Interface is one that exists, by its name in a network namespace.
type Interface struct{ Namespace, Name string }

// UnmarshalText reads IF or ns:NAME:IF.
func (i *Interface) UnmarshalText(text []byte) error {
	i.Namespace, i.Name = "", string(text)
	if rest, ok := strings.CutPrefix(i.Name, "ns:"); ok {
		if i.Namespace, i.Name, ok = strings.Cut(rest, ":"); !ok || i.Namespace == "" {
			return fmt.Errorf("%q is not ns:NAME:IF", text)
		}
	}
	if i.Name == "" || strings.ContainsAny(i.Namespace+i.Name, "/ \x00") || i.Namespace == "." || i.Namespace == ".." {
		return fmt.Errorf("%q is no interface: write IF, or ns:NAME:IF for one of a network namespace", text)
	}
	return nil
}

// String is what UnmarshalText reads.
func (i Interface) String() string {
	if i.Namespace == "" {
		return i.Name
	}
	return "ns:" + i.Namespace + ":" + i.Name
}

// own are the flags of testbeds that the lab builds.
func own() []string {
	return []string{"targets", "directions", "flow-sweep", "scenario", "underlay", "cores", "selvage-transit", "selvage-binary", "recovery", "reset"}
}

// BeforeApply notes whether a device between ports is to be measured, and refuses flags of testbeds beside.
func (c *Command) BeforeApply(k *kong.Context) error {
	var ports, others []string
	for _, given := range k.Path {
		flag := given.Flag
		switch {
		case flag == nil:
		case flag.Group != nil && flag.Group.Key == Group:
			ports = append(ports, "--"+flag.Name)
		case slices.Contains(own(), flag.Name):
			others = append(others, "--"+flag.Name)
		}
		c.LineRate = c.LineRate || flag != nil && flag.Name == "line-rate"
	}
	if len(ports) > 0 && len(others) > 0 {
		return fmt.Errorf("%s is for testbeds that the lab builds, and %s for a device between ports: use one kind", strings.Join(others, ", "), strings.Join(ports, ", "))
	}
	c.Given = len(ports) > 0
	return nil
}

// Family is the IP version of the addresses, 0 where there are none.
func (c *Command) Family() int {
	switch {
	case len(c.TxAddress) == 0:
		return 0
	case c.TxAddress[0].Addr().Is4():
		return 4
	}
	return 6
}

// The generator makes up for delays of defaultCatchUp, and of mostCatchUp at most: more would be a burst, not a rate.
const defaultCatchUp, mostCatchUp = 100 * time.Microsecond, time.Second

// Check says what is missing or wrong.
func (c *Command) Check(t Trials) error {
	errs := []error{c.checkPorts(), c.checkHost(), c.checkEncap(), c.checkCatchUp(), t.checkMixes(c.Genome), c.Boxes.Check()}
	if c.L2 {
		if len(c.TxAddress)+len(c.RxAddress)+len(c.Gateway) > 0 {
			errs = append(errs, errors.New("--l2: a device that does not route needs no --tx-address, --rx-address and --gateway"))
		}
		if len(c.Tx) != len(c.Rx) {
			errs = append(errs, fmt.Errorf("--l2: %d ports of --tx and %d of --rx do not make pairs", len(c.Tx), len(c.Rx)))
		}
	} else {
		errs = append(errs, c.checkAddresses(txAddress, c.Tx, c.TxAddress), c.checkAddresses(rxAddress, c.Rx, c.RxAddress))
	}
	if len(c.Host) == 0 {
		errs = append(errs, checkCores(c.Cores, cores.Usable()))
	}
	switch {
	case c.VLAN > 4094:
		errs = append(errs, fmt.Errorf("--vlan: %d is not within 1 … 4094", c.VLAN))
	case !(c.Exceed >= 0 && c.Exceed < 1):
		errs = append(errs, fmt.Errorf("--exceed-ratio: %g is not within 0 … 1", c.Exceed))
	case c.Sum != 0 && c.Sum < t.Duration:
		errs = append(errs, fmt.Errorf("--duration-sum: %s is less than one trial (--duration %s)", c.Sum, t.Duration))
	}
	return errors.Join(errs...)
}

// checkCores says why a host cannot have its generator on some of its cores.
func checkCores(named, usable []int) error {
	for i, core := range named {
		if !slices.Contains(usable, core) || slices.Contains(named[:i], core) {
			return fmt.Errorf("--generator-cores: %d is none of the usable cores %v, or is named twice", core, usable)
		}
	}
	if n := len(usable); n > 1 && len(named) >= n {
		return fmt.Errorf("--generator-cores: leave at least one of %d to the sink and to everything else, as the generator is a real-time task", n)
	}
	return nil
}

// checkHost sees that something can run at the places.
func (c *Command) checkHost() error {
	if len(c.Host) > len(c.places()) {
		return fmt.Errorf("--host: %d places are more than that of --tx and that of --rx", len(c.Host))
	}
	var errs []error
	for _, p := range c.Host {
		errs = append(errs, turns.CheckPlace("--host", p))
	}
	return errors.Join(errs...)
}

func (c *Command) checkCatchUp() error {
	if c.CatchUp < 0 || c.CatchUp > mostCatchUp {
		return fmt.Errorf("--catch-up: %s is not within 0 … %s", c.CatchUp, mostCatchUp)
	}
	return nil
}

func (c *Command) checkPorts() error {
	if len(c.Tx) == 0 || len(c.Rx) == 0 {
		return errors.New("--tx and --rx: name the interfaces at both sides of the device")
	}
	named := map[string]bool{} // with its place
	for i, side := range [][]Interface{c.Tx, c.Rx} {
		for _, port := range side {
			name := port.String()
			if at := c.places()[i]; at != nil {
				name += " at " + at.String()
			}
			if named[name] {
				return fmt.Errorf("--tx, --rx: %s is named twice", name)
			}
			named[name] = true
		}
	}
	for _, side := range [][]Interface{c.Tx, c.Rx} {
		for _, port := range side {
			if port.Namespace != side[0].Namespace {
				return fmt.Errorf("--tx, --rx: %s and %s are of one side, but not of one network namespace", side[0], port)
			}
		}
	}
	return nil
}

// Flags in messages.
const txAddress, rxAddress = "--tx-address", "--rx-address"

// checkAddresses sees that each port of a side has an address and a gateway of one IP version.
func (c *Command) checkAddresses(flag string, ports []Interface, addrs []netip.Prefix) error {
	if net := map[bool]netip.Prefix{true: c.TxNet, false: c.RxNet}[flag == txAddress]; len(ports) > 1 && !net.IsValid() {
		return fmt.Errorf("%s: several ports share the hosts of a network behind them: name it with %s", flag, strings.Replace(flag, "-address", "-net", 1))
	}
	if len(addrs) != len(ports) {
		return fmt.Errorf("%s: %d addresses for %d ports: each needs one, as 192.0.2.2/24 (or use --l2, where the device does not route)", flag, len(addrs), len(ports))
	}
	for _, addr := range addrs {
		if addr.Addr().Is4() != (c.Family() == 4) || addr.Addr().Is4In6() {
			return fmt.Errorf("%s: %s is not of IPv%d as the first of --tx-address", flag, addr, c.Family())
		}
		if gateway, ok := c.gateway(addr); !ok {
			return fmt.Errorf("--gateway: none is in the network of %s %s", flag, addr)
		} else if gateway == addr.Addr() {
			return fmt.Errorf("%s: %s is the device's address by --gateway", flag, addr)
		}
	}
	return nil
}

// gateway is the device's address on a network.
func (c *Command) gateway(network netip.Prefix) (netip.Addr, bool) {
	at := slices.IndexFunc(c.Gateway, network.Contains)
	if at < 0 {
		return netip.Addr{}, false
	}
	return c.Gateway[at], true
}

// Run measures, writes result and report and prints the summary.
func (c *Command) Run(ctx context.Context, console *experiment.Console, t Trials, to experiment.Destination) error {
	return experiment.Run(ctx, console, Experiment(), to, func(ctx context.Context, console *experiment.Console, began time.Time) (result.Result, error) {
		return c.measure(ctx, console, began, t)
	})
}
