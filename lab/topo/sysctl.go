package topo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// hostSysctls are what every host begins with, for the interfaces that it has and those to
// come. A new namespace takes some settings from the machine's own, so that a machine which
// forwards makes hosts which forward (devinet_init_net; net.core.devconf_inherit_init_net).
// Values are the kernel's own defaults unless the comment says why not. The order counts:
// forwarding changes accept_redirects.
var hostSysctls = []struct{ pattern, value string }{
	{"net/ipv[46]/conf/*/forwarding", "0"},                   // a bed says which of its hosts are routers
	{"net/ipv4/conf/*/rp_filter", "0"},                       // packets may come by another way than answers take
	{"net/ipv4/conf/*/accept_local", "0"},                    // nobody else sends from a host's own addresses
	{"net/ipv4/conf/*/route_localnet", "0"},                  // 127.0.0.0/8 stays inside
	{"net/ipv4/conf/*/src_valid_mark", "0"},                  // marks have no part in choosing a source
	{"net/ipv4/conf/*/log_martians", "0"},                    // the machine's log is not the lab's
	{"net/ipv[46]/conf/*/accept_redirects", "1"},             // as hosts do (RFC 1122 section 3.2.2.2); routers say otherwise
	{"net/ipv4/conf/*/secure_redirects", "1"},                // but only to gateways that a host knows
	{"net/ipv4/conf/*/send_redirects", "1"},                  // as routers do (RFC 1812 section 5.2.7.2)
	{"net/ipv4/conf/*/shared_media", "1"},                    // of several subnets too
	{"net/ipv4/conf/*/arp_ignore", "0"},                      // a host answers for all its addresses on every interface
	{"net/ipv4/conf/*/arp_announce", "0"},                    // and asks with any of them
	{"net/ipv4/conf/*/arp_filter", "0"},                      // wherever its routes lead
	{"net/ipv4/conf/*/arp_accept", "0"},                      // a gratuitous ARP makes no new neighbour
	{"net/ipv4/conf/*/drop_gratuitous_arp", "0"},             // but a guest that moves announces itself
	{"net/ipv4/conf/*/arp_notify", "0"},                      // nobody does who was not told to
	{"net/ipv6/conf/*/ndisc_notify", "0"},                    // the same of IPv6
	{"net/ipv6/conf/*/accept_untracked_na", "0"},             // the same as arp_accept
	{"net/ipv6/conf/*/drop_unsolicited_na", "0"},             // the same as drop_gratuitous_arp
	{"net/ipv4/conf/*/arp_evict_nocarrier", "1"},             // a lost link takes its neighbours with it
	{"net/ipv6/conf/*/ndisc_evict_nocarrier", "1"},           // the same of IPv6
	{"net/ipv[46]/conf/*/ignore_routes_with_linkdown", "0"},  // but not its routes
	{"net/ipv6/conf/*/keep_addr_on_down", "0"},               // an interface that is set down loses its addresses
	{"net/ipv4/conf/*/promote_secondaries", "0"},             // a subnet goes with its first one (systemd sets 1)
	{"net/ipv4/conf/*/proxy_arp", "0"},                       // nobody answers for others
	{"net/ipv4/conf/*/proxy_arp_pvlan", "0"},                 // nor on the interface that asks
	{"net/ipv6/conf/*/proxy_ndp", "0"},                       // the same of IPv6
	{"net/ipv[46]/conf/*/drop_unicast_in_l2_multicast", "0"}, // what is flooded arrives
	{"net/ipv4/conf/*/bc_forwarding", "0"},                   // directed broadcasts are not routed (RFC 2644)
	{"net/ipv6/conf/*/disable_ipv6", "0"},                    // a link that shall be silent says so (LinkEnd)
	{"net/ipv6/conf/*/addr_gen_mode", "0"},                   // link-local addresses come from MAC addresses (RFC 4291)
	{"net/ipv6/conf/*/use_tempaddr", "0"},                    // no address is made that the bed did not give
	{"net/ipv6/conf/*/autoconf", "0"},                        // not the default: the same
	{"net/ipv6/conf/*/accept_ra", "0"},                       // not the default: nor a route
	{"net/ipv6/conf/*/router_solicitations", "0"},            // not the default: nobody asks for any
	{"net/ipv6/conf/*/accept_dad", "0"},                      // not the default: an address is usable at once (RFC 4862 section 5.4)
	{"net/bridge/bridge-nf-call-*tables", "0"},               // not the default where br_netfilter is loaded: see BridgeNetfilter
}

// settle gives the host its sysctls. What the kernel has no sysctl for it does not do.
func (h *Host) settle() error {
	return h.Do(func() error {
		dirs, err := os.ReadDir(sysctlPath("net/ipv4/conf"))
		if err != nil {
			return fmt.Errorf("sysctls of interfaces: %w", err)
		}
		var interfaces []string // "all" and "default" are among them and sort before lo
		for _, dir := range dirs {
			interfaces = append(interfaces, dir.Name())
		}
		for _, s := range hostSysctls {
			for _, key := range spell(s.pattern, interfaces) {
				if err := writeSysctl(key, s.value); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
		}
		return nil
	})
}

// spell is what a pattern of hostSysctls stands for. (To have filepath.Glob look for it takes
// long: directories of sysctls are slow.)
func spell(pattern string, interfaces []string) []string {
	keys := []string{pattern}
	for _, choice := range []struct {
		meta  string
		words []string
	}{{"[46]", []string{"4", "6"}}, {"*tables", []string{"iptables", "ip6tables", "arptables"}}, {"*", interfaces}} {
		var spelt []string
		for _, key := range keys {
			before, after, found := strings.Cut(key, choice.meta)
			if !found {
				spelt = append(spelt, key)
				continue
			}
			for _, word := range choice.words {
				spelt = append(spelt, before+word+after)
			}
		}
		keys = spelt
	}
	return keys
}

// SysctlSet sets a sysctl of the host's namespace, which goes with it. key has dots or
// slashes.
func (h *Host) SysctlSet(key, value string) error {
	return h.Do(func() error { return writeSysctl(key, value) })
}

// SysctlGet reads a sysctl as the host sees it.
func (h *Host) SysctlGet(key string) (value string, err error) {
	err = h.Do(func() error {
		value, err = readSysctl(key)
		return err
	})
	return value, err
}

func sysctlPath(key string) string {
	if !strings.Contains(key, "/") {
		key = strings.ReplaceAll(key, ".", "/")
	}
	return filepath.Join("/proc/sys", key)
}

func readSysctl(key string) (string, error) {
	data, err := os.ReadFile(sysctlPath(key))
	if err != nil {
		return "", fmt.Errorf("sysctl %s: %w", key, err)
	}
	return strings.TrimSpace(string(data)), nil
}

func writeSysctl(key, value string) error {
	if err := os.WriteFile(sysctlPath(key), []byte(value), 0); err != nil {
		return fmt.Errorf("sysctl %s = %s: %w", key, value, err)
	}
	return nil
}
