package nat

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

type member struct {
	addr   netip.Addr
	digest uint64
	state  State
}

// portion is an address of the pool and who has it.
type portion struct {
	Address
	digest uint64
}

// share divides the addresses of one family among the members.
func share(addrs []netip.Addr, members []member, mode overlay.GatewayMode) []portion {
	shares := make([]portion, len(addrs))
	for i, addr := range addrs {
		shares[i] = portion{Address{Addr: addr}, digest(addr)}
	}
	owners := homes(shares, members, mode)
	serves := false
	for i, o := range owners {
		if o >= 0 {
			shares[i].Owner = members[o].addr
			serves = serves || members[o].state == Serving
		}
	}
	for i, o := range owners {
		if o >= 0 && (members[o].state == Serving || !serves) {
			shares[i].Server = shares[i].Owner
		}
	}
	return shares
}

// homes are the indexes of the members that own the addresses, -1 where there is none.
func homes(shares []portion, members []member, mode overlay.GatewayMode) []int {
	if mode == overlay.ActiveStandby {
		return slices.Repeat([]int{foremost(members)}, len(shares))
	}
	owners := evenly(shares, members)
	for i, o := range owners {
		if o >= 0 && members[o].state == Gone {
			owners[i] = heir(shares[i], members)
		}
	}
	return owners
}

// foremost is the first member that serves, or else the first that is not gone. One that
// drains gives its addresses up at once: nobody else could give them to new connections,
// for replies would come to it.
func foremost(members []member) int {
	for _, s := range []State{Serving, Draining} {
		if i := slices.IndexFunc(members, func(m member) bool { return m.state == s }); i >= 0 {
			return i
		}
	}
	return -1
}

// heir is the member of those left to which an address is drawn most.
func heir(s portion, members []member) int {
	best, most := -1, uint64(0)
	for i, m := range members {
		if m.state != Gone && (best < 0 || score(s.digest, m.digest) > most) {
			best, most = i, score(s.digest, m.digest)
		}
	}
	return best
}

// evenly gives each address a home among all members, gone or not: the pairs that are drawn
// to each other most come first, and nobody has two more than another.
func evenly(shares []portion, members []member) []int {
	owners := slices.Repeat([]int{-1}, len(shares))
	if len(members) == 0 {
		return owners
	}
	type pair struct {
		score         uint64
		share, member int
	}
	pairs := make([]pair, 0, len(shares)*len(members))
	for i, s := range shares {
		for j, m := range members {
			pairs = append(pairs, pair{score(s.digest, m.digest), i, j})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		if c := cmp.Compare(b.score, a.score); c != 0 {
			return c
		}
		return cmp.Or(shares[a.share].Addr.Compare(shares[b.share].Addr), members[a.member].addr.Compare(members[b.member].addr))
	})
	has := make([]int, len(members))
	whole := len(shares) / len(members)
	for _, quota := range []int{whole, whole + 1} {
		for _, p := range pairs {
			if owners[p.share] < 0 && has[p.member] < quota {
				owners[p.share] = p.member
				has[p.member]++
			}
		}
	}
	return owners
}

// kept are the draining members but self that own an address.
func kept(addresses []Address, members []member, self netip.Addr) (list []netip.Addr) {
	for _, m := range members {
		owns := slices.ContainsFunc(addresses, func(a Address) bool { return a.Owner == m.addr })
		if m.state == Draining && m.addr != self && owns {
			list = append(list, m.addr)
		}
	}
	return list
}

// servers leads each bucket to the server of the address that it is drawn to most.
func servers(shares []portion, self netip.Addr) (servers [Buckets]Server) {
	served := slices.DeleteFunc(slices.Clone(shares), func(s portion) bool { return !s.Server.IsValid() })
	for b := range servers {
		servers[b] = server(mixLast(mix(2, uint64(b))), served, self)
	}
	return servers
}

func server(bucket uint64, served []portion, self netip.Addr) (w Server) {
	var most, mostOwn uint64
	var server netip.Addr
	own := 0
	for i := range served {
		s := &served[i]
		n := score(bucket, s.digest)
		if !server.IsValid() || n > most {
			server, most = s.Server, n
		}
		if s.Server == self {
			if own == 0 || n > mostOwn {
				w.First, mostOwn = uint16(own), n
			}
			own++
		}
	}
	w.Here = server == self && server.IsValid()
	if !w.Here {
		w.Remote = server
	}
	return w
}
