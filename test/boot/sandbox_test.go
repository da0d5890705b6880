package boot

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/test/debian"
)

// What the unit may do is enough for BGP with a password from a credential and on BGP's own port, EVPN beside FRR, a
// gateway with NAT, traces and probes: nothing is refused.
func sandbox(t *testing.T, m *debian.Machine) {
	m.Must(`set -e
ip netns add world
ip link add wan0 type veth peer name eth0 netns world
ip link set wan0 up
ip -n world addr add 203.0.113.9/24 dev eth0
ip -n world link set eth0 up
ip -n guest route add default via 10.0.0.254
ip -n peer link del vx0
ip -n peer link add br0 mtu 1450 type bridge
ip -n peer addr add 10.0.0.2/24 dev br0
ip -n peer link set br0 up
ip -n peer link add vx0 mtu 1450 type vxlan id 100 dstport 4789 local 192.0.2.2 nolearning
ip -n peer link set vx0 master br0 up`)
	m.Put("/etc/frr/peer.conf", frrConfig)
	m.Must("mkdir -p /run/frr && chown frr /run/frr")
	for _, daemon := range []string{"zebra", "bgpd"} {
		m.Must(peer + "/usr/lib/frr/" + daemon + " -d -f /etc/frr/peer.conf -i /run/frr/" + daemon + ".pid -z /run/frr/zserv.peer --vty_socket /run/frr -P 0 >/dev/null 2>&1")
	}
	m.Put("/etc/selvage/secrets/frr", "fabric-secret\n")
	m.Put("/etc/systemd/system/selvage@a.service.d/secrets.conf", "[Service]\nLoadCredential=frr:/etc/selvage/secrets/frr\n")
	m.Put("/etc/selvage/a.yaml", fabric)
	since := m.Must("date +%s")
	m.Must("systemctl daemon-reload && systemctl restart selvage@a")
	m.Fact("BGP is established", "selvage bgp | grep -qi established")
	crosses(m)
	m.Fact("the guest reaches the world", guest+"ping -c 1 -W 2 203.0.113.9")
	m.Fact("it is translated", "selvage nat | grep -F 203.0.113.2")
	if out := m.Must("selvage trace --port p0 --dst-mac $(" + peer + "cat /sys/class/net/br0/address) 'icmp 10.0.0.1 > 10.0.0.2'"); !strings.Contains(out, "192.0.2.2") {
		t.Errorf("trace:\n%s", out)
	}
	if r, _ := m.Run(t.Context(), "selvage prove"); !strings.Contains(r.Out+r.Err, "192.0.2.2") { // FRR does not answer, which is an error
		t.Errorf("prove: %+v", r)
	}
	if r, _ := m.Run(t.Context(), "selvage doctor"); r.Out == "" {
		t.Errorf("doctor: %+v", r)
	}
	m.Must("systemctl reload selvage@a") // with the secret of the unit
	if refused, err := m.Run(t.Context(), "journalctl -u selvage@a --since @"+since+" | grep -i -e 'not permitted' -e 'denied' -e 'read-only' -e 'no priority'"); err == nil {
		t.Errorf("refused:\n%s", refused.Out)
	}
	m.Must("kill $(cat /run/frr/bgpd.pid /run/frr/zebra.pid); rm -r /etc/systemd/system/selvage@a.service.d && systemctl daemon-reload")
	m.Must("ip netns del world; ip -n guest route del default; ip -n peer link del vx0; ip -n peer link del br0; ip -n peer link add vx0 mtu 1450 type vxlan id 100 dstport 4789 local 192.0.2.2 remote 192.0.2.1 dev eth0; ip -n peer addr add 10.0.0.2/24 dev vx0; ip -n peer link set vx0 up")
	m.Put("/etc/selvage/a.yaml", edgeFile(t))
	m.Must("systemctl restart selvage@a")
	crosses(m)
	ready(m)
}

const frrConfig = `router bgp 65000
 bgp router-id 192.0.2.2
 no bgp default ipv4-unicast
 neighbor 192.0.2.1 remote-as 65000
 neighbor 192.0.2.1 password fabric-secret
 neighbor 192.0.2.1 timers connect 1
 address-family l2vpn evpn
  neighbor 192.0.2.1 activate
  advertise-all-vni
`

const fabric = `apiVersion: selvage.dev/v1alpha2
kind: Edge
metadata: {name: a}
spec:
  underlay: {interfaces: [underlay0], tep: 192.0.2.1}
  segments:
  - {name: blue, vni: 100, evpn: {}, gateway: {router: tenant, addresses: [10.0.0.254/24]}}
  routers:
  - name: tenant
    uplinks: [{name: wan, interface: wan0, addresses: [203.0.113.2/24], nat: {masquerade: true}}]
  ports: [{name: p0, interface: p0, segment: blue}]
  bgp:
    as: 65000
    listen: ["192.0.2.1"]
    neighbours: [{name: frr, address: 192.0.2.2, passwordFile: frr}]
`
