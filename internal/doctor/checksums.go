package doctor

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/doctor/fix"
)

const checksumOffload = "tx-udp_tnl-csum-segmentation"

// checkChecksums looks at the outer UDP checksum of tunnels.
func checkChecksums(inv *Inventory) []Finding {
	var found []Finding
	for _, t := range inv.Tunnels {
		if t.External { // the packet brings its flags too
			continue
		}
		six := slices.ContainsFunc(t.Remotes, netip.Addr.Is6)
		if t.sendsChecksum(six) {
			found = append(found, inv.checksumCost(t))
		}
		if six && t.Zero6Rx != nil && !*t.Zero6Rx {
			found = append(found, refusesZero(t))
		}
		if six && t.Zero6Tx != nil && *t.Zero6Tx {
			found = append(found, sendsZero(t))
		}
		if !six && t.Checksum != nil && !*t.Checksum {
			found = append(found, good("checksums", t.Name, "outer UDP checksum is zero, as RFC 7348 section 5 recommends over IPv4"))
		}
	}
	return found
}

// sendsChecksum reports whether the tunnel is known to send outer UDP checksums.
func (t Tunnel) sendsChecksum(six bool) bool {
	if six && t.Zero6Tx != nil {
		return !*t.Zero6Tx
	}
	return !six && t.Checksum != nil && *t.Checksum && t.Port != 0
}

// checksumCost says who computes the outer checksum.
func (inv *Inventory) checksumCost(t Tunnel) Finding {
	var software, settable []string
	for _, name := range t.firstHops() {
		l, ok := inv.link(name)
		if !ok || l.NIC == nil {
			continue
		}
		if f, known := l.NIC.Features[checksumOffload]; known && !f.On {
			software = append(software, name)
			if !f.Fixed {
				settable = append(settable, name)
			}
		}
	}
	if len(software) == 0 {
		return good("checksums", t.Name, "sends outer UDP checksums, and no underlay interface leaves them to the kernel")
	}
	f := Finding{
		Check: "checksums", Severity: Warning, Subject: t.Name,
		What:     fmt.Sprintf("outer UDP checksums are sent and computed in software on %s", few(software)),
		Evidence: fmt.Sprintf("the tunnel's checksum flag is on; ethtool -k %s: %s: off", fix.Quote(software[0]), checksumOffload),
		Why: "The kernel cuts each segment and reads each byte of it before the device does. A similar case is " + s1Tunnel +
			". Zero is allowed (RFC 7348 section 5, RFC 6935) if the remotes accept it.",
		Measure: []string{iperf, fmt.Sprintf("selvage lab ab --targets plain,kernel,selvage --cases tcp --offload underlay:%s=off", checksumOffload)},
	}
	for _, name := range settable {
		f.Change = append(f.Change, fix.Line("ethtool -K %s %s on", name, checksumOffload))
	}
	switch {
	case t.Source == fromOVS:
		f.either([]string{fix.Line("ovs-vsctl set interface %s options:csum=false", t.Name)})
	case t.Source == fromKernel && t.Encapsulation == "vxlan":
		f.either(t.again("noudpcsum"))
	}
	return f
}

// firstHops are the interfaces that the routes to the remotes name.
func (t Tunnel) firstHops() []string {
	var names []string
	for _, p := range t.Paths {
		if p.Interface != "" && !slices.Contains(names, p.Interface) {
			names = append(names, p.Interface)
		}
	}
	return names
}

func refusesZero(t Tunnel) Finding {
	return Finding{
		Check: "checksums", Severity: Note, Subject: t.Name,
		What:     "packets over IPv6 with UDP checksum zero are dropped on receipt",
		Evidence: "udp6zerocsumrx is off (netlink)",
		Why: "From a remote that sends zero (RFC 6935; Selvage does unless its segment has udpChecksum), 0 packets arrive. " +
			"This host counts them only in UdpInErrors and Udp6InCsumErrors.",
		Change:  t.again("udp6zerocsumrx"),
		Measure: []string{"nstat -az Udp6InCsumErrors", fix.Line("selvage doctor --interface %s", t.Device)},
	}
}

func sendsZero(t Tunnel) Finding {
	return Finding{
		Check: "checksums", Severity: Note, Subject: t.Name,
		What:     "UDP checksum zero is sent over IPv6",
		Evidence: "udp6zerocsumtx is on (netlink)",
		Why:      "It saves reading each byte, but every remote must accept it (RFC 6935); the kernel does with udp6zerocsumrx. A remote that does not drops 100 % of the packets.",
		Measure:  []string{"nstat -az Udp6InCsumErrors  # on each remote"},
	}
}

// again are the commands that make a vxlan device anew with a flag, which the
// kernel does not change on an existing one.
func (t Tunnel) again(flag ...string) []string {
	words := []string{"ip", "link", "add", t.Device, "mtu", fmt.Sprint(t.MTU), "type", "vxlan", "id", fmt.Sprint(t.VNI)}
	if t.Local.IsValid() {
		words = append(words, "local", t.Local.String())
	}
	if t.Lower != "" {
		words = append(words, "dev", t.Lower)
	}
	if t.Group.IsValid() {
		words = append(words, "group", t.Group.String())
	}
	words = append(words, "dstport", fmt.Sprint(t.Port))
	return []string{
		fix.Line("ip link delete dev %s  # the kernel cannot change this flag on a device that exists; its FDB goes too", t.Device),
		fix.Run(append(words, flag...)...).String(),
	}
}

// checkUDPPorts looks for destination ports that are known to make trouble.
func checkUDPPorts(inv *Inventory) []Finding {
	var found []Finding
	for _, t := range inv.Tunnels {
		for _, name := range t.underlays() {
			l, ok := inv.link(name)
			if !ok || l.NIC == nil || l.NIC.Driver != "vmxnet3" || t.Port != 4789 && t.Port != 8472 {
				continue
			}
			found = append(found, Finding{
				Check: "udp-port", Severity: Note, Subject: t.Name,
				What:     fmt.Sprintf("UDP port %d inside a VMware guest", t.Port),
				Evidence: fmt.Sprintf("driver vmxnet3 of %s; destination port %d", name, t.Port),
				Why: "Some hypervisors take packets of these ports for their own overlay: ICMP works, but TCP carries 0 bit/s " +
					"(flannel issue 2388, cilium issue 21801). Use another port on all hosts if you see that.",
				Measure: []string{iperf, fix.Line("tcpdump -ni %s udp port %d  # on both hosts", name, t.Port)},
			})
			break
		}
		if t.Source == fromKernel && t.Encapsulation == "vxlan" && t.Port == 8472 {
			found = append(found, Finding{
				Check: "udp-port", Severity: Note, Subject: t.Name, What: "VXLAN on UDP port 8472, Linux's default from before the RFC",
				Evidence: "destination port of the device (netlink)",
				Why:      "Endpoints that follow RFC 7348 section 5 use 4789: 0 packets from such a remote are accepted. 8472 is right if all remotes use it, as flannel's do.",
				Measure:  []string{fix.Line("ip -d link show dev %s", t.Device)},
			})
		}
	}
	return found
}
