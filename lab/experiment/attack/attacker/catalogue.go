package attacker

import (
	"slices"

	"github.com/selvage/selvage/lab/experiment/attack/network"
)

// All are the attacks, from those of the link to those of the control plane.
func All() []Attack {
	return slices.Concat(linkAttacks(), tunnelAttacks(), tableAttacks(), rateAttacks())
}

// linkAttacks are those of a guest on its own segment.
func linkAttacks() []Attack {
	return []Attack{
		{
			Name: "mac-flood", Title: "Frames from 200,000 MAC addresses", From: FromUnguarded, Rate: 66_000, Most: 200_000, Newcomer: true,
			streams: macFlood, crossed: func(b testbed) []watched {
				leaked := append(toHonest(0), clause{field(0, 4, 0x02000000), field(4, 1, 1)})
				return []watched{{roles: b.attackers(), clauses: leaked}, {roles: b.others(), clauses: []clause{attackMAC()}},
					{roles: []string{network.RoleBystander}, clauses: toHonest(1)}}
			},
		},
		{Name: "arp-nd-spoof", Title: "ARP and ND in the names of others", From: FromGuarded, Rate: 2000, Most: 20_000, streams: spoof, crossed: spoofed},
		{Name: "ra-redirect", Title: "Router advertisements and redirects", From: FromGuarded, Rate: 2000, Most: 20_000, streams: advertise, crossed: markedAtAll},
		{Name: "rogue-dhcp", Title: "Answers of a DHCP server", From: FromGuarded, Rate: 2000, Most: 20_000, streams: dhcp, crossed: markedAtAll},
		{
			Name: "vlan-hopping", Title: "Tagged frames, with one tag and two", From: FromUnguarded, Rate: 5000, Most: 50_000,
			streams: hop, crossed: func(b testbed) []watched {
				return []watched{{roles: b.victims(), clauses: []clause{{field(6, 4, 0x06a70500)}}}}
			},
		},
	}
}

// tunnelAttacks are those on tunnels and their endpoints.
func tunnelAttacks() []Attack {
	return []Attack{
		{
			Name: "tunnel-in-tunnel", Title: "Tunnel packets from a guest", From: FromUnguarded, Rate: 5000, Most: 50_000,
			streams: tunnelInTunnel, crossed: func(b testbed) []watched { return []watched{{roles: b.victims(), clauses: []clause{innerMAC()}}} },
		},
		{
			Name: "forged-tep", Title: "Tunnel packets from a stranger", From: FromUnderlay, Rate: 10_000, Most: 100_000,
			streams: forgedTEP, crossed: func(b testbed) []watched {
				return []watched{{roles: b.victims(), clauses: []clause{innerMAC(), marked4()}}}
			},
		},
		{Name: "forged-icmp", Title: "“Too big” to tunnel endpoints", From: FromUnderlay, Rate: 200, Most: 2000, streams: forgedICMP, crossed: tooBigAtAll},
		{
			Name: "bfd-forgery", Title: "BFD in a tunnel endpoint's name", From: FromUnderlay, Need: BFD, Rate: 2000, Most: 20_000,
			streams: forgedBFD, crossed: func(testbed) []watched { return []watched{{roles: []string{roleStranger}, clauses: answersOfBFD()}} },
		},
	}
}

// tableAttacks are those that fill tables of connections.
func tableAttacks() []Attack {
	return []Attack{
		{
			Name: "syn-flood", Title: "TCP SYNs, half of them spoofed", From: FromGuarded, Rate: 30_000, Most: 300_000, streams: synFlood,
			crossed: func(b testbed) []watched {
				return []watched{{roles: b.victims(), clauses: []clause{{field(12, 2, etherIPv4), field(26, 2, 0xc612)}}}, {roles: b.others(), clauses: []clause{marked4()}}}
			},
		},
		{
			Name: "udp-dialogues", Title: "UDP questions with answers", From: FromUnguarded, Rate: 30_000, Most: 300_000,
			streams: dialogues, crossed: markedAtAll,
		},
		{
			Name: "fragment-flood", Title: "Fragments of packets never whole", From: FromGuarded, Rate: 30_000, Most: 300_000, streams: fragments,
			crossed: func(b testbed) []watched { return []watched{{roles: b.victims(), clauses: []clause{orphans()}}} },
		},
		{
			Name: "nat-exhaustion", Title: "Connections through NAT", From: FromGuarded, Need: NAT, Rate: 30_000, Most: 300_000, Outside: true, streams: throughNAT,
			crossed: func(testbed) []watched {
				inside := clause{field(12, 2, etherIPv4), field(26, 1, 10)}
				return []watched{{roles: []string{roleOutside0, roleOutside1}, clauses: []clause{inside}}}
			},
		},
	}
}

// rateAttacks are those by packets and routes that are work.
func rateAttacks() []Attack {
	return []Attack{
		{
			Name: "bum-storm", Title: "Broadcast, multicast, unknown unicast", From: FromUnguarded, Rate: 60_000, Most: 600_000, streams: storm,
			crossed: func(b testbed) []watched {
				own := []string{network.RoleSame1, network.RoleSame2}
				return []watched{
					{own, []clause{append(attackMAC(), field(0, 4, 0xffffffff))}, network.StormBroadcast},
					{own, []clause{append(attackMAC(), field(0, 4, 0x01005e01))}, network.StormMulticast},
					{own, []clause{append(attackMAC(), field(0, 4, 0x02ee0000))}, network.StormUnknown},
					{roles: b.others(), clauses: []clause{attackMAC()}},
				}
			},
		},
		{
			Name: "ttl-storm", Title: "Packets whose TTL ends at the router", From: FromGuarded, Need: Router, Rate: 30_000, Most: 300_000, streams: expiring,
			crossed: func(b testbed) []watched {
				return []watched{{roles: append(b.victims(), roleOutside0, roleOutside1), clauses: []clause{marked4(), marked6()}}}
			},
		},
		{
			Name: "route-flood", Title: "20,000 MAC routes of EVPN", From: FromBGP, Need: BGP, Most: 20_000, Routes: true,
			crossed: func(testbed) []watched {
				return []watched{{roles: []string{roleStranger}, clauses: []clause{tunnelled()}}}
			},
		},
	}
}

// testbed is one as attacks see it.
type testbed struct {
	*network.Network
	attacker, loose, same1, same2, other1, other2 *network.Guest
}

func newTestbed(n *network.Network) testbed {
	return testbed{
		n, n.Guest(network.RoleAttacker), n.Guest(network.RoleLoose), n.Guest(network.RoleSame1), n.Guest(network.RoleSame2),
		n.Guest(network.RoleOther1), n.Guest(network.RoleOther2),
	}
}

func (testbed) attackers() []string { return []string{network.RoleAttacker, network.RoleLoose} }
func (testbed) others() []string {
	return []string{network.RoleOther1, network.RoleOther2, network.RoleBystander}
}
func (b testbed) victims() []string {
	return append([]string{network.RoleSame1, network.RoleSame2}, b.others()...)
}

// markedAtAll counts the attack's IP packets at every victim.
func markedAtAll(b testbed) []watched {
	return []watched{{roles: b.victims(), clauses: []clause{marked4(), marked6()}}}
}
