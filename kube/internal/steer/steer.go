// Package steer leads packets of a node's pods to the node's edge, and what comes back to the pods.
//
// A pair of interfaces joins the node and its edge. A table of nftables marks packets of pods that policies select, after the
// cluster's own destination NAT, and a rule routes what is marked into the pair: so packets pass the FORWARD hook, where the
// CNI's network policies are. A chain before those that masquerade keeps the pod's source. A route that drops stands behind the
// one into the pair: what is marked never leaves by the node, also when the pair is gone. Nothing of this needs a process.
//
// decisions/0028 says why.
package steer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/kube/internal/plan"
)

// Config is what of the node the steering uses.
type Config struct {
	Link    plan.LinkPair
	MTU     int            // of the pair: that of the underlay less the tunnel's headers
	Mark    uint32         // one bit that no other program uses alone: see mask
	Table   int            // of routes
	Rule    int            // priority of the rule
	Cluster []netip.Prefix // destinations that are never steered
	Sysctls string         // folder of the node's, or "" for /proc/sys, which is read-only in most containers
}

// Default are a mark, a table and a rule that no program in wide use takes: docs/guide/kubernetes.md.
func Default(link plan.LinkPair, mtu int, cluster []netip.Prefix) Config {
	return Config{Link: link, MTU: mtu, Mark: 0x1000, Table: 7789, Rule: 90, Cluster: cluster}
}

// mask is what of a mark tells packets that are steered: the bit, and none of the four by which Cilium says what a packet is. Those of its
// WireGuard device have the default bit and three of these (MARK_MAGIC_WG_ENCRYPTED, 0x1e00).
func (c Config) mask() uint32 { return c.Mark | 0xf00 }

// protocol of rules and routes says that they are ours, whatever their numbers are.
const protocol = 115

// Steerer changes the network namespace that it is used in.
type Steerer struct {
	Config
}

// Setup makes the pair, where it is not there yet.
func (s Steerer) Setup() error {
	host, err := s.pair()
	if err != nil {
		return err
	}
	for _, a := range s.Link.HostAddrs {
		if a.Addr().Is6() {
			if err := s.sysctl("net/ipv6/conf/"+s.Link.Host+"/disable_ipv6", "0"); err != nil {
				return err
			}
		}
		if err := netlink.AddrReplace(host, &netlink.Addr{IPNet: prefix(a), Flags: unix.IFA_F_NODAD}); err != nil {
			return fmt.Errorf("address %s of %s: %w", a, s.Link.Host, err)
		}
	}
	if err := s.tidy(host); err != nil {
		return err
	}
	for _, set := range [][2]string{
		// Replies come from outside by the pair, while the way back is another.
		{"net/ipv4/conf/" + s.Link.Host + "/rp_filter", "2"}, {"net/ipv4/conf/" + s.Link.Host + "/forwarding", "1"},
		// While there is no edge, packets end here: the node would send them into the pair again, until their TTL is used up.
		{"net/ipv4/conf/" + s.Link.Edge + "/forwarding", "0"}, {"net/ipv6/conf/" + s.Link.Edge + "/disable_ipv6", "1"},
	} {
		if err := s.sysctl(set[0], set[1]); err != nil {
			return err
		}
	}
	return nil
}

// tidy removes what an agent with other numbers has made.
func (s Steerer) tidy(host netlink.Link) error {
	addrs, err := netlink.AddrList(host, netlink.FAMILY_ALL)
	errs := []error{err}
	for _, a := range addrs {
		own, _ := netip.AddrFromSlice(a.IP)
		if is := func(p netip.Prefix) bool { return p.Addr() == own.Unmap() }; !own.IsLinkLocalUnicast() && !slices.ContainsFunc(s.Link.HostAddrs, is) {
			errs = append(errs, netlink.AddrDel(host, &a))
		}
	}
	return errors.Join(append(errs, removeRules(func(r netlink.Rule) bool { return isOurs(r) && !s.isCurrent(r) }))...)
}

var families = []int{netlink.FAMILY_V4, netlink.FAMILY_V6}

func isOurs(r netlink.Rule) bool { return r.Protocol == protocol }

func (s Steerer) isCurrent(r netlink.Rule) bool {
	return r.Priority == s.Config.Rule && r.Table == s.Table && r.Mark == s.Mark && r.Mask != nil && *r.Mask == s.mask() || r.Priority == s.Config.Rule-1 && r.Table == s.holdTable()
}

// pair is the node's end; both are up then.
func (s Steerer) pair() (netlink.Link, error) {
	host, err := netlink.LinkByName(s.Link.Host)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: s.Link.Host, MTU: s.MTU}, PeerName: s.Link.Edge, PeerMTU: uint32(s.MTU)}
		if err := netlink.LinkAdd(veth); err != nil {
			return nil, fmt.Errorf("make %s and %s: %w", s.Link.Host, s.Link.Edge, err)
		}
		host, err = netlink.LinkByName(s.Link.Host)
	}
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", s.Link.Host, err)
	}
	edge, err := netlink.LinkByName(s.Link.Edge)
	if err != nil {
		return nil, fmt.Errorf("find %s, the other end of %s: %w", s.Link.Edge, s.Link.Host, err)
	}
	for _, l := range []netlink.Link{host, edge} {
		if err := errors.Join(netlink.LinkSetMTU(l, s.MTU), netlink.LinkSetUp(l)); err != nil {
			return nil, fmt.Errorf("set %s up: %w", l.Attrs().Name, err)
		}
	}
	return host, nil
}

// Lead has what is marked go into the pair, or nowhere. Where nothing is to be marked there is no rule and no route.
func (s Steerer) Lead(steering []plan.Steer) error {
	if !leads(steering) {
		return s.withdraw()
	}
	host, err := netlink.LinkByName(s.Link.Host)
	if err != nil {
		return fmt.Errorf("find %s: %w", s.Link.Host, err)
	}
	for _, family := range families {
		if err := s.route(family, host.Attrs().Index); err != nil {
			return err
		}
	}
	return nil
}

// leads reports whether anything is to be marked.
func leads(steering []plan.Steer) bool {
	return slices.ContainsFunc(steering, func(p plan.Steer) bool { return !p.Held })
}

// withdraw ends what Lead does.
func (s Steerer) withdraw() error {
	return removeRules(func(r netlink.Rule) bool { return isOurs(r) && r.Src == nil })
}

// route has what is marked go into the pair, or nowhere.
func (s Steerer) route(family, index int) error {
	nowhere := &netlink.Route{Protocol: protocol, Family: family, Table: s.Table, Dst: everywhere(family), Type: unix.RTN_UNREACHABLE, Priority: 1 << 30}
	if err := netlink.RouteReplace(nowhere); err != nil {
		return fmt.Errorf("route of table %d: %w", s.Table, err)
	}
	for _, a := range s.Link.EdgeAddrs {
		if a.Addr().Is4() != (family == netlink.FAMILY_V4) {
			continue
		}
		into := &netlink.Route{Protocol: protocol, Family: family, Table: s.Table, Dst: everywhere(family), LinkIndex: index, Gw: a.Addr().AsSlice(), Priority: 1}
		if err := netlink.RouteReplace(into); err != nil {
			return fmt.Errorf("route of table %d by %s: %w", s.Table, a.Addr(), err)
		}
	}
	if err := netlink.RuleAdd(s.rule(family)); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("rule %d: %w", s.Config.Rule, err)
	}
	return nil
}

func everywhere(family int) *ipNet {
	if family == netlink.FAMILY_V4 {
		return prefix(netip.MustParsePrefix("0.0.0.0/0"))
	}
	return prefix(netip.MustParsePrefix("::/0"))
}

func (s Steerer) rule(family int) *netlink.Rule {
	r, mask := netlink.NewRule(), s.mask()
	r.Family, r.Priority, r.Table, r.Mark, r.Mask, r.Protocol = family, s.Config.Rule, s.Table, s.Mark, &mask, protocol
	return r
}

// Apply replaces what is steered, in one step. gone are the gateways of which no node serves. Packets are marked only while there is
// a rule for them, and without a policy there is no table.
func (s Steerer) Apply(ctx context.Context, steering []plan.Steer, gone map[string]bool) error {
	script := remove
	if len(steering) > 0 {
		script = s.Script(steering, gone)
	}
	if !leads(steering) {
		return errors.Join(nft(ctx, script), s.withdraw())
	}
	if err := s.Lead(steering); err != nil {
		return err
	}
	return nft(ctx, script)
}

// Remove takes all away that Setup, Apply and Hold made, with other numbers too.
func (s Steerer) Remove(ctx context.Context) error {
	errs := []error{nft(ctx, remove), removeRules(isOurs)}
	for _, family := range families {
		errs = append(errs, removeRoutes(family, s.Table), removeRoutes(family, s.holdTable()))
	}
	if host, err := netlink.LinkByName(s.Link.Host); err == nil {
		errs = append(errs, netlink.LinkDel(host))
	}
	return errors.Join(errs...)
}

// removeRules removes those that are meant, and our routes of their tables.
func removeRules(meant func(netlink.Rule) bool) error {
	var errs []error
	for _, family := range families {
		rules, err := netlink.RuleList(family)
		errs = append(errs, err)
		for _, r := range rules {
			if meant(r) {
				r.Family = family
				errs = append(errs, netlink.RuleDel(&r), removeRoutes(family, r.Table))
			}
		}
	}
	return errors.Join(errs...)
}

// nft runs a script as one transaction.
func nft(ctx context.Context, script string) error {
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (s Steerer) sysctl(key, value string) error {
	path := filepath.Join(cmp.Or(s.Sysctls, "/proc/sys"), key)
	if now, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(now)) == value {
		return nil // it may be read-only here
	}
	return os.WriteFile(path, []byte(value), 0o644)
}

// Listed is the table as the kernel has it, "" when there is none.
func (s Steerer) Listed(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "nft", "-s", "list", "table", "inet", "selvage_egress").CombinedOutput()
	if err != nil && strings.Contains(string(out), "No such file or directory") {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("nft: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}
