package proxmox

import (
	"fmt"
	"net/netip"
	"strings"
)

// yaml writes the configuration.
func (i *importer) yaml(dir string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# An edge of the network of a Proxmox VE cluster, by selvage import proxmox %q.\n", dir)
	b.WriteString("# Ports are added here, or by selvage port.\n")
	fmt.Fprintf(&b, "apiVersion: selvage.dev/v1alpha2\nkind: Edge\nmetadata: {name: %s}\nspec:\n", i.Name)
	fmt.Fprintf(&b, "  underlay:\n    interfaces: [%s]\n    tep: %q\n", i.Interface, i.TEP)
	if len(i.routers) > 0 {
		b.WriteString("    # The nodes' FRR watches over sessions by BFD, with these timers.\n    bfd: {interval: 300ms, multiplier: 3}\n")
	}
	b.WriteString("  segments:\n")
	for _, s := range i.segments {
		i.segment(&b, s)
	}
	if len(i.routers) > 0 {
		b.WriteString("  routers:\n")
	}
	for _, r := range i.routers {
		i.router(&b, r)
	}
	if len(i.routers) > 0 {
		i.bgp(&b)
	}
	b.WriteString("  ports: []\n")
	return b.String()
}

func (i *importer) segment(b *strings.Builder, s segment) {
	fmt.Fprintf(b, "  - name: %s\n    vni: %d\n", s.name, s.vni)
	udpPort(b, "    ", s.port)
	if s.tagged {
		b.WriteString("    vlanTransparent: true\n")
	}
	if !s.suppress {
		b.WriteString("    suppress: false\n")
	}
	if s.router == "" {
		fmt.Fprintf(b, "    remotes: [%s]\n", quoted(s.remotes))
		return
	}
	b.WriteString("    evpn: {}\n")
	if len(s.gateways) == 0 {
		return
	}
	mac := ""
	if s.mac != "" {
		mac = fmt.Sprintf("mac: %q, ", s.mac)
	}
	fmt.Fprintf(b, "    gateway: {router: %s, %saddresses: [%s]}\n", s.router, mac, quoted(s.gateways))
}

func (i *importer) router(b *strings.Builder, r router) {
	fmt.Fprintf(b, "  - name: %s\n    l3:\n      vni: %d\n      mac: %q\n", r.name, r.vni, i.routerMAC())
	udpPort(b, "      ", r.port)
	imports := ""
	if len(r.imports) > 0 {
		imports = fmt.Sprintf("import: [%s], ", quoted(r.imports))
	}
	fmt.Fprintf(b, "      evpn: {%sadvertise: [%s]}\n", imports, strings.Join(r.advertise, ", "))
	if !r.exit {
		return
	}
	b.WriteString("    routes:\n")
	for _, gateway := range i.Exit.Gateways {
		all := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if gateway.Is6() {
			all = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		fmt.Fprintf(b, "    - {prefix: %q, via: [{address: %q}]}\n", all, gateway)
	}
	for _, prefix := range r.apart {
		fmt.Fprintf(b, "    - {prefix: %q, type: blackhole} # of another zone\n", prefix)
	}
	fmt.Fprintf(b, "    uplinks:\n    - name: %s-out\n      interface: %s\n      addresses: [%s]\n", r.name, i.Exit.Interface, quoted(i.Exit.Addresses))
	if r.nat {
		b.WriteString("      nat: {masquerade: true}\n")
	}
}

func (i *importer) bgp(b *strings.Builder) {
	backup := false
	for _, r := range i.routers {
		backup = backup || r.backup
	}
	export := ""
	if backup {
		export = ", export: [after-the-primary]"
	}
	fmt.Fprintf(b, "  bgp:\n    as: %d\n", i.as)
	if i.TEP.Is6() {
		mac := i.TEP.As16()
		fmt.Fprintf(b, "    routerID: %s\n", netip.AddrFrom4([4]byte(mac[12:])))
	}
	b.WriteString("    neighbours:\n")
	for number, peer := range i.peers {
		fmt.Fprintf(b, "    - {name: node%d, address: %q, bfd: true%s}\n", number+1, peer, export)
	}
	if backup {
		b.WriteString("    policies:\n    # The primary exit node is used while it is there.\n    - name: after-the-primary\n      statements:\n" +
			"      - {prefixes: [{prefix: 0.0.0.0/0}, {prefix: \"::/0\"}], med: 200}\n")
	}
}

func udpPort(b *strings.Builder, indent string, port uint64) {
	if port != 0 {
		fmt.Fprintf(b, "%sudpPort: %d\n", indent, port)
	}
}

func quoted[T any](all []T) string {
	var words []string
	for _, v := range all {
		words = append(words, fmt.Sprintf("%q", fmt.Sprint(v)))
	}
	return strings.Join(words, ", ")
}
