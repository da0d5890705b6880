package simulation

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
)

// difference is between what must be in the maps and what is.
type difference struct {
	table string
	extra bool   // it is there and must not be
	what  string // in the words of the configuration
}

func (d difference) String() string {
	if d.extra {
		return fmt.Sprintf("%s: %s is there and must not be", d.table, d.what)
	}
	return fmt.Sprintf("%s: %s is not there, or is not right", d.table, d.what)
}

// checker compares the maps with what is configured, told and the case at the host.
type checker struct {
	w    *world
	s    shape
	a    actual
	segs map[int]uint32 // numbers of the segments that are there
	list []difference
}

func (c *checker) missing(table, format string, args ...any) {
	c.list = append(c.list, difference{table, false, fmt.Sprintf(format, args...)})
}

func (c *checker) extra(table, format string, args ...any) {
	c.list = append(c.list, difference{table, true, fmt.Sprintf(format, args...)})
}

// differences are all that there are. mu must not be held.
func (w *world) differences(s shape) []difference {
	c := &checker{w: w, s: s, a: w.actual(), segs: map[int]uint32{}}
	w.mu.Lock()
	defer w.mu.Unlock()
	c.segments()
	c.ports()
	c.paths()
	c.remotes()
	c.members()
	c.hosts()
	c.guards()
	c.routes()
	c.programs()
	slices.SortFunc(c.list, func(a, b difference) int { return slices.Compare([]string{a.table, a.what}, []string{b.table, b.what}) })
	return c.list
}

func (c *checker) segments() {
	for n := range c.s.segments {
		id, ok := c.a.segments[vniOf(n)]
		if ok {
			c.segs[n] = id
		}
		if led, there := c.a.vnis[vniOf(n)]; !ok || !there || led != id {
			c.missing("vnis", "VNI of s%d", n)
		}
	}
	for vni := range c.a.segments {
		if vni != 0 && c.s.segments[int(vni)-100] == nil {
			c.extra("segments", "VNI %d", vni)
		}
	}
	for vni := range c.a.vnis {
		if c.s.segments[int(vni)-100] == nil {
			c.extra("vnis", "VNI %d", vni)
		}
	}
}

// link is the interface of a port, when it is there.
func (c *checker) link(n int) (index uint32, ok bool) {
	l, ok := c.w.state.Links[interfaceOf(n)]
	return uint32(l.Index), ok
}

// portID is the number of a port.
func (c *checker) portID(n int) (uint32, bool) {
	index, ok := c.link(n)
	if !ok || c.s.ports[n] == nil {
		return 0, false
	}
	for id, v := range c.a.vports {
		if v.kind == kindPort && v.ifindex == index {
			return id, true
		}
	}
	return 0, false
}

func (c *checker) ports() {
	wanted := map[portKey]bool{}
	for n, p := range c.s.ports {
		index, ok := c.link(n)
		if !ok {
			continue
		}
		wanted[portKey{index, 0}] = true
		id, ok := c.portID(n)
		v := c.a.vports[id]
		seg, known := c.segs[p.segment]
		from, led := c.a.ports[portKey{index, 0}]
		switch {
		case !ok || !led || from != id:
			c.missing("ports", "p%d", n)
		case v.kind != kindPort || v.ifindex != index || known && v.segment != seg:
			c.missing("vports", "p%d in s%d: %+v", n, p.segment, v)
		case (v.flags&flagGuardMACs != 0) != p.guarded:
			c.missing("vports", "guard of p%d", n)
		case (v.flags&flagFirewall != 0) != (c.s.firewall > 0):
			c.missing("vports", "firewall of p%d", n)
		}
	}
	for key := range c.a.ports {
		if !wanted[key] {
			c.extra("ports", "interface %d", key.ifindex)
		}
	}
}

// heard are the remotes of a segment that BGP tells of: those with any route, see evpn.Table.Learned.
func (c *checker) heard(n int) (list []netip.Addr) {
	if !c.s.bgp || !c.s.segments[n].evpn {
		return nil
	}
	for _, u := range c.w.routes {
		if uint32(u.Route.VNI) == vniOf(n) && !slices.Contains(list, u.Route.NextHop) {
			list = append(list, u.Route.NextHop)
		}
	}
	return list
}

// remotesOf are all first addresses of the remotes of a segment.
func (c *checker) remotesOf(n int) (list []netip.Addr) {
	for r := range c.s.segments[n].remotes {
		list = append(list, remoteAddr(r))
	}
	return append(list, c.heard(n)...)
}

// stands is the number of the path that stands for a remote.
func (c *checker) stands(remote netip.Addr) (uint32, bool) {
	for id, v := range c.a.vports {
		if v.kind == kindTEP && v.local == tep && v.remote == remote {
			return id, true
		}
	}
	return 0, false
}

// paths are how packets from remotes are told from others.
func (c *checker) paths() {
	wanted := map[[2]netip.Addr]bool{}
	for id, v := range c.a.vports {
		if v.kind != kindTEP {
			continue
		}
		key := [2]netip.Addr{v.local, v.remote}
		wanted[key] = true
		if got, ok := c.a.teps[key]; !ok || got != id {
			c.missing("teps", "%s", v.remote)
		}
	}
	for key := range c.a.teps {
		if !wanted[key] {
			c.extra("teps", "%s", key[1])
		}
	}
}

func (c *checker) remotes() {
	wanted := map[remoteKey]bool{}
	for n, id := range c.segs {
		for _, first := range c.remotesOf(n) {
			addrs := []netip.Addr{first}
			if r := int(first.As4()[3]) - 10; c.s.dual && r < maxRemotes {
				addrs = c.s.addrs(r)
			}
			vport, ok := c.stands(first)
			for _, addr := range addrs {
				key := remoteKey{addr, id}
				wanted[key] = true
				if got, there := c.a.remotes[key]; !ok || !there || got&^noLearning != vport {
					c.missing("remotes", "%s of s%d", addr, n)
				}
			}
		}
	}
	for key := range c.a.remotes {
		if !wanted[key] {
			c.extra("remotes", "%s of segment %d", key.addr, key.segment)
		}
	}
}

// members are whom a flood goes to.
func (c *checker) members() {
	for n, id := range c.segs {
		var want, got []uint32
		for p, port := range c.s.ports {
			if index, ok := c.link(p); ok && port.segment == n {
				_ = index
				if vport, ok := c.portID(p); ok {
					want = append(want, vport)
				}
			}
		}
		for _, r := range c.remotesOf(n) {
			if vport, ok := c.stands(r); ok {
				want = append(want, vport)
			}
		}
		for i := range c.a.counts[id] {
			if vport, ok := c.a.members[[2]uint32{id, i}]; ok {
				got = append(got, vport)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		for _, vport := range want {
			if !slices.Contains(got, vport) {
				c.missing("members", "%s in s%d", c.words(vport), n)
			}
		}
		for _, vport := range got {
			if !slices.Contains(want, vport) {
				c.extra("members", "%s in s%d", c.words(vport), n)
			}
		}
	}
}

func (c *checker) words(id uint32) string {
	v := c.a.vports[id]
	if v.kind == kindPort {
		return fmt.Sprintf("interface %d", v.ifindex)
	}
	return v.remote.String()
}

// hosts are entries of the FDB: static ones, those of BGP, and that what is learned leads nowhere
// else than to members.
func (c *checker) hosts() {
	wanted := map[macKey]bool{}
	for n, id := range c.segs {
		for mac, at := range c.s.segments[n].static {
			key := macKey{id, macOf(n, mac)}
			wanted[key] = true
			vport, ok := c.stands(remoteAddr(max(0, -1-at)))
			if at >= 0 {
				vport, ok = c.portID(at)
				if !ok { // its interface is not there
					delete(wanted, key)
					if e, there := c.a.fdb[key]; there && e.origin == originStatic {
						c.extra("fdb", "%s of s%d at p%d, which has no interface", macOf(n, mac), n, at)
					}
					continue
				}
			}
			if e, there := c.a.fdb[key]; !ok || !there || e.origin != originStatic || e.vport != vport {
				c.missing("fdb", "%s of s%d", macOf(n, mac), n)
			}
		}
	}
	names := map[uint32]int{}
	for n, id := range c.segs {
		names[id] = n
	}
	for key, e := range c.a.fdb {
		v := c.a.vports[e.vport]
		n, known := names[key.segment]
		switch {
		case !known:
			c.extra("fdb", "%s of segment %d, which is not there", key.mac, key.segment)
		case e.origin == originStatic && !wanted[key]:
			c.extra("fdb", "static %s of s%d", key.mac, n)
		case v.kind == 0 || v.kind == kindPort && v.segment != key.segment:
			c.extra("fdb", "%s of s%d at what is not in it", key.mac, n)
		case v.kind != kindPort && !slices.Contains(c.remotesOf(n), c.first(v.remote)):
			c.extra("fdb", "%s of s%d behind %s", key.mac, n, v.remote)
		}
	}
	c.bgpHosts()
}

// first is the first address of a remote.
func (c *checker) first(addr netip.Addr) netip.Addr {
	if b := addr.As4(); b[0] == 198 {
		return remoteAddr(int(b[3]) - 10)
	}
	return addr
}

func (c *checker) bgpHosts() {
	for k, u := range c.w.routes {
		n := int(u.Route.VNI) - 100
		id, ok := c.segs[n]
		if k.Type != evpn.MACIP || !ok || !c.s.segments[n].evpn || !slices.Contains(c.remotesOf(n), u.Route.NextHop) {
			continue
		}
		key := macKey{id, u.Route.MAC.String()}
		vport, _ := c.stands(u.Route.NextHop)
		if e, there := c.a.fdb[key]; !there || e.origin != originStatic && (e.origin != originBGP || e.vport != vport) {
			c.missing("fdb", "BGP's %s of s%d behind %s (%t %+v, want vport %d)", key.mac, n, u.Route.NextHop, there, e, vport)
		}
	}
	for key, e := range c.a.fdb {
		if e.origin == originBGP && !c.tells(key) {
			c.extra("fdb", "BGP's %s of segment %d", key.mac, key.segment)
		}
	}
}

// tells reports whether BGP tells of a host.
func (c *checker) tells(key macKey) bool {
	for k, u := range c.w.routes {
		if id, ok := c.segs[int(u.Route.VNI)-100]; k.Type == evpn.MACIP && ok && id == key.segment && u.Route.MAC.String() == key.mac {
			return c.s.bgp && c.s.segments[int(u.Route.VNI)-100].evpn
		}
	}
	return false
}

func (c *checker) guards() {
	wanted := map[vportMAC]bool{}
	for n, p := range c.s.ports {
		id, ok := c.portID(n)
		if !ok || !p.guarded {
			continue
		}
		key := vportMAC{id, guardMAC(n)}
		wanted[key] = true
		if !c.a.allowed[key] {
			c.missing("allowed_macs", "%s of p%d", key.mac, n)
		}
	}
	for key := range c.a.allowed {
		if !wanted[key] {
			c.extra("allowed_macs", "%s of %s", key.mac, c.words(key.vport))
		}
	}
}

// carries reports whether a packet can leave by a segment: it has a remote, or a port whose link is up.
func (c *checker) carries(seg int) bool {
	for n, p := range c.s.ports {
		if l, ok := c.w.state.Links[interfaceOf(n)]; ok && l.Up && p.segment == seg {
			return true
		}
	}
	return len(c.remotesOf(seg)) > 0
}

// routes are connected and static ones. A static one by a segment that carries nothing is out of use.
func (c *checker) routes() {
	wanted := map[netip.Prefix]hop{}
	for n, seg := range c.s.segments {
		if seg.gateway {
			wanted[prefixOf(n)] = hop{segment: c.segs[n]}
		}
	}
	for n, by := range c.s.routes {
		if c.carries(by) {
			wanted[staticPrefix(n)] = hop{segment: c.segs[by], addr: nextHopIn(by)}
		}
	}
	for prefix, want := range wanted {
		group, ok := c.a.routes[prefix]
		if !ok || want.segment == 0 {
			c.missing("routes", "%s", prefix)
			continue
		}
		for _, bucket := range c.a.nexthops[group] {
			if c.a.hops[uint32(bucket)] != want {
				c.missing("routes", "%s by %+v, not %+v", prefix, c.a.hops[uint32(bucket)], want)
				break
			}
		}
	}
	for prefix := range c.a.routes {
		if _, ok := wanted[prefix]; !ok {
			c.extra("routes", "%s", prefix)
		}
	}
}

func (c *checker) programs() {
	wanted := map[int]bool{2: true, 3: c.s.dual}
	for n := range c.s.ports {
		if index, ok := c.link(n); ok {
			wanted[int(index)] = true
		}
	}
	for index, want := range wanted {
		if want && !c.a.attached[index] {
			c.missing("attach", "program at interface %d", index)
		}
	}
	for index := range c.a.attached {
		if !wanted[index] {
			c.extra("attach", "program at interface %d", index)
		}
	}
}

// deadPaths are remotes whose flows go by a path that liveness took out of use, though another
// lives. mu must not be held.
func (w *world) deadPaths(s shape) (list []string) {
	a := w.actual()
	w.mu.Lock()
	defer w.mu.Unlock()
	for n := range maxRemotes {
		stands, ok := a.teps[[2]netip.Addr{tep, remoteAddr(n)}]
		if !ok || !s.dual || !s.bfd {
			continue
		}
		pairs := map[netip.Addr]overlay.Pair{tep: {Local: tep, Remote: remoteAddr(n)}, tep2: {Local: tep2, Remote: secondAddr(n)}}
		lives := 0
		for _, pair := range pairs {
			if w.usable(pair) {
				lives++
			}
		}
		for _, bucket := range a.groups[uint16(stands)] {
			v := a.vports[uint32(bucket)]
			if pair := (overlay.Pair{Local: v.local, Remote: v.remote}); lives > 0 && v.kind != 0 && w.lives[pair].State == bfd.Down {
				list = append(list, fmt.Sprintf("r%d by %s", n, pair))
				break
			}
		}
	}
	return list
}

// usable reports whether a path may be used. mu is held.
func (w *world) usable(pair overlay.Pair) bool {
	p, ok := w.state.Routes[pair]
	return ok && w.lives[pair].State != bfd.Down && w.state.Links[p.Interface].Up
}
