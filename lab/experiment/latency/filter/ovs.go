package filter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
)

// OVS is an OVSHalf with the userspace datapath's own connection tracking.
type OVS struct {
	dut.OVSHalf

	running map[*topo.Host]*dut.OpenVSwitch
	counted map[*topo.Host]uint64
}

// NewOVS returns one that is not up.
func NewOVS(o dut.OVSOptions) *OVS {
	return &OVS{OVSHalf: dut.OVSHalf(o), running: map[*topo.Host]*dut.OpenVSwitch{}, counted: map[*topo.Host]uint64{}}
}

// Describe is one line for reports.
func (f *OVS) Describe() string { return f.OVSHalf.Describe() + ", ct flows" }

// Up starts the daemons.
func (f *OVS) Up(ctx context.Context, s topo.Site) (func(context.Context) error, error) {
	v, err := f.Start(ctx, s)
	if v == nil {
		return nil, err
	}
	f.running[s.Host] = v
	return v.Stop, err
}

// ovsPassed is the cookie of the flows that the last rule of a policy became.
const ovsPassed = 0x5e1

// Police replaces all flows of the overlay's bridge as one bundle.
func (f *OVS) Police(ctx context.Context, s topo.Site, policy *overlay.Firewall) error {
	flows := "priority=0,actions=NORMAL\n"
	if policy != nil {
		var err error
		if flows, err = OVSFlows(*policy); err != nil {
			return err
		}
	}
	v := f.running[s.Host]
	file := filepath.Join(v.Dir, "flows")
	if err := os.WriteFile(file, []byte(flows), 0o644); err != nil {
		return err
	}
	f.counted[s.Host] = 0
	return v.Run(ctx, "ovs-ofctl", "--bundle", "--timeout=60", "replace-flows", dut.OVSOverlayBridge, file)
}

// Passed is the packets of state "new" that the last rule of the policy let pass.
func (f *OVS) Passed(ctx context.Context, s topo.Site) (uint64, error) {
	v := f.running[s.Host]
	// The datapath's counters reach the flows when its flows are looked at.
	if err := v.Run(ctx, "ovs-appctl", "--timeout=5", "--target="+v.Control(), "revalidator/wait"); err != nil {
		return 0, err
	}
	c := v.Host.Command(ctx, "ovs-ofctl", "--timeout=5", "dump-flows", dut.OVSOverlayBridge, fmt.Sprintf("cookie=%#x/-1", ovsPassed))
	c.Env = v.Env
	out, err := c.Output()
	if err != nil {
		return 0, err
	}
	var sum uint64
	for _, field := range bytes.FieldsFunc(out, func(r rune) bool { return r == ' ' || r == ',' }) {
		if text, ok := strings.CutPrefix(string(field), "n_packets="); ok {
			packets, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("flow counters: %w", err)
			}
			sum += packets
		}
	}
	passed := sum - f.counted[s.Host]
	f.counted[s.Host] = sum
	return passed, nil
}

// Priorities of the flows of a policy. There are fewer of them than rules may be, so rules
// that follow each other and say the same share one: their order decides nothing.
const (
	ovsEstablished = 65535
	ovsFirstRule   = 60000
	ovsDefault     = 1
)

// OVSFlows writes a policy as OpenFlow flows. It is for addresses, ports and protocols, as
// Nftables is.
func OVSFlows(fw overlay.Firewall) (string, error) {
	o := ovsWriter{groups: map[string][]overlay.Member{}}
	for _, g := range fw.Groups {
		o.groups[g.Name] = g.Members
	}
	if fw.Default != overlay.Allow && fw.Default != overlay.Drop || len(fw.Defaults) > 0 {
		return "", fmt.Errorf("default %q of the firewall, %d of segments: flows have one here, allow or drop", fw.Default, len(fw.Defaults))
	}
	o.text.WriteString("table=0,priority=1,actions=NORMAL\ntable=0,priority=10,ip,actions=ct(table=1)\ntable=0,priority=10,ipv6,actions=ct(table=1)\n")
	for kind := 133; kind <= 136; kind++ { // RFC 4861: solicitations and advertisements
		fmt.Fprintf(&o.text, "table=0,priority=20,icmp6,icmp_type=%d,actions=NORMAL\n", kind)
	}
	for _, state := range []string{"+trk+est", "+trk+rel"} {
		fmt.Fprintf(&o.text, "table=1,priority=%d,ct_state=%s,actions=NORMAL\n", ovsEstablished, state)
	}
	priority, former := ovsFirstRule, overlay.Verdict("")
	for i, rule := range fw.Rules {
		if rule.Verdict != former {
			priority, former = priority-1, rule.Verdict
		}
		if priority <= ovsDefault {
			return "", fmt.Errorf("rule %s of section %s: OpenFlow has 65536 priorities, and allow and drop alternate more often", rule.Name, rule.Section)
		}
		if err := o.rule(rule, priority, i == len(fw.Rules)-1); err != nil {
			return "", fmt.Errorf("rule %s of section %s: %w", rule.Name, rule.Section, err)
		}
	}
	fmt.Fprintf(&o.text, "table=1,priority=%d,ct_state=+trk+new,actions=%s\ntable=1,priority=0,actions=drop\n", ovsDefault, ovsActions(fw.Default))
	return o.text.String(), nil
}

func ovsActions(v overlay.Verdict) string {
	if v == overlay.Allow {
		return "ct(commit),NORMAL"
	}
	return "drop"
}

type ovsWriter struct {
	text   strings.Builder
	groups map[string][]overlay.Member
}

func (o *ovsWriter) rule(r overlay.Rule, priority int, last bool) error {
	if err := ovsCan(r); err != nil {
		return err
	}
	from, err := o.addresses(r.From, "nw_src", "ipv6_src")
	if err != nil {
		return err
	}
	to, err := o.addresses(r.To, "nw_dst", "ipv6_dst")
	if err != nil {
		return err
	}
	services, err := ovsServices(r.Services)
	if err != nil {
		return err
	}
	cookie := 0
	if last {
		cookie = ovsPassed
	}
	for _, f := range from {
		for _, t := range to {
			for _, s := range services {
				o.flows(fmt.Sprintf("cookie=%#x,table=1,priority=%d,ct_state=+trk+new,", cookie, priority), f, t, s, ovsActions(r.Verdict))
			}
		}
	}
	return nil
}

func ovsCan(r overlay.Rule) error {
	if r.Direction != overlay.Both || len(r.AppliedTo) > 0 || r.Verdict != overlay.Allow && r.Verdict != overlay.Drop {
		return errors.New("flows here allow or drop, at all ports and in both directions only")
	}
	return nil
}

// flows writes a flow for each family that source, destination and service can have.
func (o *ovsWriter) flows(head string, from, to ovsAddr, s ovsService, actions string) {
	for _, family := range []string{"4", "6"} {
		if proto, ok := s.proto[family]; ok && from.of(family) && to.of(family) {
			fmt.Fprintf(&o.text, "%s%s%s%s%s,actions=%s\n", head, proto, from.text, to.text, s.ports, actions)
		}
	}
}

// ovsAddr is a condition on an address; family "" is any.
type ovsAddr struct{ text, family string }

func (a ovsAddr) of(family string) bool { return a.family == "" || a.family == family }

func (o *ovsWriter) addresses(members []overlay.Member, v4, v6 string) ([]ovsAddr, error) {
	if len(members) == 0 {
		return []ovsAddr{{}}, nil
	}
	var all []ovsAddr
	for _, m := range members {
		switch {
		case m.Prefix.IsValid() && m.Prefix.Addr().Is4():
			all = append(all, ovsAddr{"," + v4 + "=" + m.Prefix.String(), "4"})
		case m.Prefix.IsValid():
			all = append(all, ovsAddr{"," + v6 + "=" + m.Prefix.String(), "6"})
		case m.Group != "":
			more, err := o.addresses(o.groups[m.Group], v4, v6)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		default:
			return nil, errors.New("flows here match prefixes and groups of prefixes only")
		}
	}
	return all, nil
}

// ovsService is a service in one flow: the protocol's name by family, and ports.
type ovsService struct {
	proto map[string]string
	ports string
}

func ovsServices(services []overlay.Service) ([]ovsService, error) {
	if len(services) == 0 {
		return []ovsService{{proto: map[string]string{"4": "ip", "6": "ipv6"}}}, nil
	}
	protocols := map[int]map[string]string{
		1: {"4": "icmp"}, 58: {"6": "icmp6"}, 6: {"4": "tcp", "6": "tcp6"}, 17: {"4": "udp", "6": "udp6"}, 132: {"4": "sctp", "6": "sctp6"},
	}
	var all []ovsService
	for _, s := range services {
		proto := protocols[s.Protocol]
		if proto == nil || len(s.SourcePorts) > 0 || s.ICMPType >= 0 && (s.Protocol == 1 || s.Protocol == 58) {
			return nil, errors.New("flows here match TCP, UDP and SCTP with destination ports, and ICMP")
		}
		if len(s.Ports) == 0 {
			all = append(all, ovsService{proto: proto})
		}
		for _, ports := range s.Ports {
			for _, masked := range ovsPorts(ports) {
				all = append(all, ovsService{proto: proto, ports: ",tp_dst=" + masked})
			}
		}
	}
	return all, nil
}

// ovsPorts cuts a range of ports into blocks of a power of two, each a value and a mask.
func ovsPorts(r overlay.PortRange) []string {
	var all []string
	for first, last := uint32(r.First), uint32(r.Last); first <= last; {
		size := uint32(1) << 16
		if first > 0 {
			size = 1 << bits.TrailingZeros32(first)
		}
		for first+size-1 > last {
			size >>= 1
		}
		all = append(all, fmt.Sprintf("%#x/%#x", first, 0xffff&^(size-1)))
		first += size
	}
	return all
}
