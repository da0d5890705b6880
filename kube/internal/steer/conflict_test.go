package steer_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/kube/internal/steer"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/testlab"
	"github.com/selvage/selvage/test/tier"
)

// bare is a node without anything, and a steerer for it.
func bare(t *testing.T) (*topo.Host, steer.Steerer, func(...string) string) {
	t.Helper()
	tier.Root(t)
	h, err := testlab.New(t).Host("node")
	if err != nil {
		t.Fatal(err)
	}
	run := func(argv ...string) string {
		t.Helper()
		out, err := h.Output(t.Context(), argv...)
		if err != nil {
			t.Fatalf("%v: %v", argv, err)
		}
		return string(out)
	}
	return h, steer.Steerer{Config: steer.Default(pair, 1450, prefixes("10.244.0.0/16"))}, run
}

// Each program that has what the steering would use is named, with the value that gets out of its way; what others have beside it is not.
func TestConflicts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ command, want string }{
		{"ip rule add pref 90 from 10.9.0.0/16 lookup 100", "rule 90 of the node is another program's (table 100): set agent.rulePriority"},
		{"ip -6 rule add pref 89 lookup 100", "rule 89 of the node"},
		{"ip rule add pref 500 from 10.9.0.0/16 lookup 7790", "leads to table 7790: set agent.routingTable"},
		{"ip route add 10.9.0.0/16 dev lo table 7789", "table 7789 of the node has another program's routes: set agent.routingTable"},
		{"ip rule add pref 500 fwmark 0x11000/0x11000 lookup 100", "mark 0x11000: it has the bit 0x1000 by which pods are steered: set agent.mark"},
		{"iptables-nft -t nat -A PREROUTING -p tcp --dport 80 -j MARK --set-xmark 0x1000/0x1000", "chain PREROUTING of table nat (nftables) uses mark 0x1000"},
		{"iptables-nft -t nat -A POSTROUTING -m mark --mark 0x1000/0x1000 -j MASQUERADE", "chain POSTROUTING of table nat"},
		{"ip6tables-nft -t mangle -A FORWARD -j MARK --set-xmark 0x3000/0x3000", "chain FORWARD of table mangle"},
		{"iptables-legacy -t nat -A PREROUTING -p tcp --dport 80 -j MARK --set-xmark 0x1000/0x1000", "table nat (iptables-legacy) uses mark 0x1000"},
		{"ip6tables-legacy -t mangle -A PREROUTING -m mark --mark 0x1000/0x1000 -j ACCEPT", "table mangle (iptables-legacy)"},
		{"nft 'add table inet x; add chain inet x y { type filter hook prerouting priority 0; }; add rule inet x y meta mark set meta mark or 0x1000'", "chain y of table x"},
		{"nft 'add table inet x; add chain inet x y; add rule inet x y meta mark & 0x1000 == 0x1000 accept'", "chain y of table x"},
		{"nft 'add table inet x; add chain inet x y; add rule inet x y meta mark set 0x1037'", "chain y of table x"},
		{"ip link add selvage0 type bridge", "interface selvage0 of the node is a bridge"},
		{"ip addr add 192.0.0.1/24 dev lo", "interface lo of the node has 192.0.0.1/24, where selvage0 would have"},
		{"ip route add blackhole 192.0.0.252/31", "the node has a route to 192.0.0.252/31"},
		// kube-proxy, portmap, Calico, Tailscale, a VPN that takes all, and a network of link-local addresses.
		{"iptables-nft -t nat -A POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN; iptables-nft -t nat -A POSTROUTING -j MARK --xor-mark 0x4000", ""},
		{"iptables-legacy -t nat -A PREROUTING -j MARK --set-xmark 0x2000/0x2000; iptables-nft -t mangle -A FORWARD -j MARK --set-xmark 0/0xffff0000", ""},
		{"ip rule add pref 5210 fwmark 0x80000/0xff0000 lookup main; ip rule add pref 5270 lookup 52; ip route add blackhole 100.64.0.0/10 table 52", ""},
		{"ip rule add pref 110 not fwmark 0x1bd00 lookup 7120; nft 'add table inet x; add chain inet x y; add rule inet x y meta mark set 0x1e00'", ""}, // NetBird; Cilium's WireGuard
		{"ip route add blackhole 128.0.0.0/1; ip route add blackhole 169.254.0.0/16", ""},
	} {
		t.Run(c.command, func(t *testing.T) {
			t.Parallel()
			h, s, run := bare(t)
			run("ip", "link", "set", "lo", "up")
			conflicts := func() (list []string) {
				if err := h.Do(func() (err error) { list, err = s.Conflicts(s.Cluster); return err }); err != nil {
					t.Fatal(err)
				}
				return list
			}
			run("sh", "-c", c.command)
			list := conflicts()
			if c.want == "" && len(list) > 0 || c.want != "" && !slices.ContainsFunc(list, func(text string) bool { return strings.Contains(text, c.want) }) {
				t.Errorf("it says %q, want %q", list, c.want)
			}
			if c.want != "" {
				return
			}
			if err := h.Do(func() error {
				if err := s.Setup(); err != nil {
					return err
				}
				if err := s.Apply(t.Context(), all, nil); err != nil {
					return err
				}
				return s.Hold(addrs("10.244.1.7", "fd02::7"))
			}); err != nil {
				t.Fatal(err)
			}
			if list := conflicts(); len(list) > 0 {
				t.Errorf("of itself it says %q", list)
			}
		})
	}
}

// The rule is for packets with the bit alone: packets that Cilium's WireGuard and NetBird send have more, and go their way.
func TestMarksWithTheBit(t *testing.T) {
	t.Parallel()
	h, s, run := bare(t)
	if err := h.Do(func() error { return errors.Join(s.Setup(), s.Apply(t.Context(), all, nil)) }); err != nil {
		t.Fatal(err)
	}
	run("ip", "link", "set", "lo", "up")
	run("ip", "route", "add", "default", "dev", "lo")
	for mark, way := range map[string]string{"0x1000": "dev selvage0", "0xabcd1000": "dev selvage0", "0x1e00": "dev lo", "0x1bd00": "dev lo", "0xf00": "dev lo"} {
		if got := run("ip", "route", "get", "203.0.113.9", "mark", mark); !strings.Contains(got, way) {
			t.Errorf("mark %s: %s; want %s", mark, got, way)
		}
	}
}

// What an agent with other numbers has made is removed; a node without a policy has no rule, route or table.
func TestOtherNumbers(t *testing.T) {
	t.Parallel()
	h, s, run := bare(t)
	old := s
	link, err := pair.WithLink(prefixes("100.127.255.252/30"))
	if err != nil {
		t.Fatal(err)
	}
	old.Link, old.Mark, old.Table, old.Rule = link, 0x2000, 5000, 80
	for _, do := range []func() error{old.Setup, func() error { return old.Apply(t.Context(), all, nil) }} {
		if err := h.Do(do); err != nil {
			t.Fatal(err)
		}
	}
	for _, do := range []func() error{s.Setup, func() error { return s.Apply(t.Context(), nil, nil) }} {
		if err := h.Do(do); err != nil {
			t.Fatal(err)
		}
	}
	all := run("ip", "rule") + run("ip", "-6", "rule") + run("ip", "addr") + run("ip", "route", "show", "table", "all") + run("nft", "list", "ruleset")
	for _, word := range []string{"0x2000", "0x1000", "5000", "7789", "100.127", "selvage_egress"} {
		if strings.Contains(all, word) {
			t.Errorf("%s is there:\n%s", word, all)
		}
	}
}
