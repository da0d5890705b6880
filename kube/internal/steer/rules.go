package steer

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/selvage/selvage/kube/internal/plan"
)

type ipNet = net.IPNet

func prefix(p netip.Prefix) *ipNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// table is ours.
const (
	ownTable = "selvage_egress"
	table    = "inet " + ownTable
)

// remove deletes it, whether or not it is there.
const remove = "table " + table + "\ndelete table " + table + "\n"

// Script is what nft is given to replace the table.
func (s Steerer) Script(steering []plan.Steer, gone map[string]bool) string {
	w := &script{}
	for _, is4 := range []bool{true, false} {
		if of := slices.DeleteFunc(slices.Concat(s.Cluster, plan.NodeLocal), other(is4)); len(of) > 0 {
			w.line("\t\t%s daddr @%s return", family(is4), w.set(is4, "cluster", true, plan.Texts(of)))
		}
	}
	for _, p := range steering {
		for _, is4 := range []bool{true, false} {
			w.policy(p, is4, s.Config, p.NodeWhenGone && (p.Held || gone[p.Gateway]))
		}
	}
	return remove + "table " + table + ` {
` + w.sets.String() + `	chain prerouting {
		type filter hook prerouting priority dstnat + 1; policy accept;
		iifname "` + s.Link.Host + `" return
		ct direction reply return
		fib daddr type { local, broadcast, anycast, multicast } return
` + w.rules.String() + `	}
	chain forward {
		type filter hook forward priority raw; policy accept;
		oifname "` + s.Link.Host + `" meta mark set meta mark & ` + fmt.Sprintf("%#x", ^s.Mark) + `
	}
	chain postrouting {
		type nat hook postrouting priority srcnat - 1; policy accept;
		oifname "` + s.Link.Host + `" snat ip to ip saddr
		oifname "` + s.Link.Host + `" snat ip6 to ip6 saddr
	}
}
`
}

// script is what is written of a table.
type script struct {
	sets, rules strings.Builder
	count       int
}

func (w *script) line(format string, args ...any) { fmt.Fprintf(&w.rules, format+"\n", args...) }

// policy writes the sets and rules of a policy for a family: the first that matches decides, as at the edge.
func (w *script) policy(p plan.Steer, is4 bool, c Config, byNode bool) {
	of := func(a netip.Addr) bool { return a.Is4() != is4 }
	pods := slices.DeleteFunc(slices.Clone(p.Pods), of)
	if len(pods) == 0 {
		return
	}
	to, except := slices.DeleteFunc(slices.Clone(p.To), other(is4)), slices.DeleteFunc(slices.Clone(p.Except), other(is4))
	if len(p.To) > 0 && len(to) == 0 {
		return
	}
	ip := family(is4)
	from := fmt.Sprintf("\t\t%s saddr @%s ", ip, w.set(is4, "pods", false, plan.Texts(pods)))
	if len(except) > 0 {
		w.line(from+"%s daddr @%s return comment %q", ip, w.set(is4, "except", true, plan.Texts(except)), plan.ShortKey(p.Policy))
	}
	if len(to) > 0 {
		from += fmt.Sprintf("%s daddr @%s ", ip, w.set(is4, "to", true, plan.Texts(to)))
	}
	if byNode {
		w.line(from+"return comment %q", plan.ShortKey(p.Policy))
		return
	}
	if p.Held {
		w.line(from+"drop comment %q", plan.ShortKey(p.Policy))
		return
	}
	w.line(from+"meta mark set meta mark & %#x | %#x return comment %q", ^c.mask(), c.Mark, plan.ShortKey(p.Policy))
}

func other(is4 bool) func(netip.Prefix) bool {
	return func(p netip.Prefix) bool { return p.Addr().Is4() != is4 }
}

// set writes a set and is its name.
func (w *script) set(is4 bool, what string, networks bool, elements []string) string {
	w.count++
	name, flags := fmt.Sprintf("%s%d", what, w.count), ""
	if networks {
		flags = "flags interval; auto-merge; "
	}
	fmt.Fprintf(&w.sets, "\tset %s { type %s; %selements = { %s }; }\n", name, map[bool]string{true: "ipv4_addr", false: "ipv6_addr"}[is4], flags, strings.Join(elements, ", "))
	return name
}

func family(is4 bool) string {
	if is4 {
		return "ip"
	}
	return "ip6"
}
