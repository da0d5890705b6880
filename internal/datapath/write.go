package datapath

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/overlay"
)

// write fills the maps with what is planned and marks the segments that it touched. An entry that
// cannot be written keeps none of the others from it, and is a partial error.
func (d *Datapath) write(p *plan) (partial, err error) {
	yield := d.numbers.yield
	_, vnis := put(d.Ports.maps.Vnis, p.vnis)
	yield()
	remotes, remoteErr := put(d.Ports.maps.Remotes, p.remotes)
	for _, k := range remotes {
		p.touched[k.Segment] = true
	}
	yield()
	members, memberErr := put(d.Ports.maps.Members, p.members)
	for _, k := range members {
		p.touched[k.Segment] = true
	}
	partial = errors.Join(vnis, remoteErr, memberErr)
	for _, put := range []func(*plan) error{d.Ports.putPlaces, d.Ports.putAllowed, d.Hosts.putStatic, d.Hosts.putNeighbours, d.Egress.writeTranslation} {
		yield()
		partial = errors.Join(partial, put(p))
	}
	yield()
	if err := errors.Join(d.Ports.putSegments(p), d.Egress.engage(p)); err != nil {
		return partial, err
	}
	yield()
	return errors.Join(partial, d.Routes.writeRoutes(p)), nil
}

// putPlaces writes where packets come in and which paths they go by.
func (po *Ports) putPlaces(p *plan) error {
	_, ports := put(po.maps.Ports, p.ports)
	_, teps := put(po.maps.Teps, p.teps)
	_, groups := put(po.paths.maps.PathGroups, p.pathGroups)
	_, options := put(po.maps.KnownOptions, p.options)
	return errors.Join(ports, teps, groups, options)
}

// putAllowed writes who may send from a port; the port's segment decides anew.
func (po *Ports) putAllowed(p *plan) error {
	macs, macErr := put(po.maps.AllowedMacs, p.allowedMACs)
	for _, k := range macs {
		p.touched[po.numbers.vports[k.Vport].Segment] = true
	}
	addrs, addrErr := putTrie(po.maps.AllowedAddrs, p.allowedAddrs)
	for _, k := range addrs {
		p.touched[po.numbers.vports[k.Vport].Segment] = true
	}
	return errors.Join(macErr, addrErr)
}

// putNeighbours writes the static ones.
func (ho *Hosts) putNeighbours(p *plan) error {
	var failed fewErrors
	for _, k := range keysOf(p.neighbours) {
		mac := p.neighbours[k]
		var now bpfNeighbour
		err := ho.maps.Neighbours.Lookup(k, &now)
		if err == nil && now.Origin == bpfHostOriginORIGIN_STATIC && now.Mac == mac {
			continue
		}
		if err := putHost(ho, ho.neighbourTable(), k, bpfNeighbour{Mac: mac, Origin: bpfHostOriginORIGIN_STATIC}); err != nil {
			failed.add(fmt.Errorf("write the static neighbour %s of segment %s: %w", addrOf(k.Addr.W), ho.numbers.names.segments[k.Segment], err))
			continue
		}
		p.touched[k.Segment] = true
	}
	return failed.err()
}

// put writes the entries that differ and returns their keys. Each is tried.
func put[K, V comparable](m kernel.Map, want map[K]V) (changed []K, err error) {
	var failed fewErrors
	var differ []K
	for k, v := range want {
		var now V
		switch err := m.Lookup(k, &now); {
		case err == nil && now == v:
		case err == nil, errors.Is(err, ebpf.ErrKeyNotExist):
			differ = append(differ, k)
		default:
			failed.add(fmt.Errorf("write %v to the map %s: %w", k, m, err))
		}
	}
	return putThose(m, inOrder(differ), want, &failed), failed.err()
}

// putThose writes the entries of some keys, and returns those that were written.
func putThose[K, V comparable](m kernel.Map, keys []K, want map[K]V, failed *fewErrors) (written []K) {
	for _, k := range keys {
		if err := m.Put(k, want[k]); err != nil {
			failed.add(fmt.Errorf("write %v to the map %s: %w", k, m, err))
			continue
		}
		written = append(written, k)
	}
	return written
}

func (ho *Hosts) putStatic(p *plan) error {
	var failed fewErrors
	for _, k := range keysOf(p.static) {
		vport := p.static[k]
		var now bpfFdbEntry
		err := ho.maps.Fdb.Lookup(k, &now)
		if err == nil && now.Origin == bpfHostOriginORIGIN_STATIC && now.Vport == vport {
			continue
		}
		if err := putHost(ho, ho.fdbTable(), k, bpfFdbEntry{Vport: vport, Origin: bpfHostOriginORIGIN_STATIC}); err != nil {
			failed.add(fmt.Errorf("write the static MAC address %s of segment %s: %w", overlay.MAC(k.Mac), ho.numbers.names.segments[k.Segment], err))
			continue
		}
		p.touched[k.Segment] = true
	}
	return failed.err()
}

// putSegments writes the segments; one that was touched gets a new generation,
// last, when everything that its decisions depend on is in place.
func (po *Ports) putSegments(p *plan) error {
	for id := range po.numbers.names.segments {
		var now bpfSegment
		if err := po.numbers.maps.Segments.Lookup(id, &now); err != nil {
			return fmt.Errorf("read segment %d: %w", id, err)
		}
		want := po.numbers.segments[id]
		want.Generation, want.Shards, want.Members = now.Generation, now.Shards, min(p.counts[id], po.prog.segmentMembers())
		if want == now && !p.touched[id] {
			continue
		}
		want.Generation += generationStep
		po.numbers.segments[id] = want
		if err := po.numbers.maps.Segments.Put(id, want); err != nil {
			return fmt.Errorf("write segment %d: %w", id, err)
		}
	}
	return nil
}

// prune removes what is no longer wanted, from the outside in: first the hooks,
// then the ways in, then what learned entries point at, then the numbers.
func (d *Datapath) prune(p *plan) error {
	var errs []error
	for _, step := range []func(*plan) error{
		d.pruneWaysIn, d.Paths.prune, d.Links.pruneDevices, d.pruneAllowed, d.Routes.pruneRoutes, d.Egress.pruneTranslation,
		d.Hosts.pruneFDB, d.Hosts.pruneNeighbours,
		func(*plan) error { return d.Ports.pruneVports() },
		func(*plan) error { return d.Ports.pruneSegments() },
		d.Firewall.prunePolicy,
	} {
		errs = append(errs, step(p))
		d.numbers.yield()
	}
	return errors.Join(append(errs, d.Changes.changed())...)
}

// pruneWaysIn detaches programs, and removes the places where packets come in.
func (d *Datapath) pruneWaysIn(p *plan) error {
	maps := &d.Ports.maps
	return errors.Join(
		d.Links.detachRest(p.hooks),
		pruneMap(maps.Ports, p.ports, nil),
		pruneMap(maps.Vnis, p.vnis, nil),
		pruneMap(maps.Remotes, p.remotes, func(k bpfRemoteKey) error { return d.Changes.invalidate(k.Segment) }),
		pruneMap(maps.Members, p.members, func(k bpfMemberKey) error { return d.Changes.invalidate(k.Segment) }),
		pruneMap(maps.Teps, p.teps, nil),
		pruneMap(maps.KnownOptions, p.options, nil),
	)
}

func (pa *Paths) prune(p *plan) error { return pruneMap(pa.maps.PathGroups, p.pathGroups, nil) }

func (ln *Links) pruneDevices(p *plan) error {
	return errors.Join(
		pruneDevmap(ln.maps.TxDevmap, p.txDevices),
		pruneDevmap(ln.maps.TxDevmapGeneric, p.txDevices),
		pruneMap(ln.maps.XdpInterfaces, p.xdpInterfaces, nil),
	)
}

// pruneAllowed removes who may send from a port no more.
func (d *Datapath) pruneAllowed(p *plan) error {
	return errors.Join(
		pruneMap(d.Ports.maps.AllowedMacs, p.allowedMACs, func(k bpfAllowedMac) error { return d.Changes.invalidatePort(k.Vport) }),
		pruneMap(d.Ports.maps.AllowedAddrs, p.allowedAddrs, func(k bpfAllowedAddr) error { return d.Changes.invalidatePort(k.Vport) }),
	)
}

// pruneMap deletes what is not wanted and tells of each key afterwards: a decision
// that was taken meanwhile may rest on it. Each is tried.
func pruneMap[K, V comparable](m kernel.Map, want map[K]V, gone func(K) error) error {
	var unwanted []K
	if err := walkWhile(m, func(k *K, _ *V) bool {
		if _, ok := want[*k]; !ok {
			unwanted = append(unwanted, *k)
		}
		return true
	}); err != nil {
		return err
	}
	return deleteKeys(m, unwanted, gone)
}

// pruneDevmap is pruneMap of a map that cannot be read by batches.
func pruneDevmap(m kernel.Map, want map[uint32]uint32) error {
	var unwanted []uint32
	if err := walkDevmap(m, func(k, _ uint32) {
		if _, ok := want[k]; !ok {
			unwanted = append(unwanted, k)
		}
	}); err != nil {
		return err
	}
	return deleteKeys(m, unwanted, nil)
}

// walkDevmap calls do for every entry, with number and interface. Its keys are all numbers, of which few have an entry.
func walkDevmap(m kernel.Map, do func(number, ifindex uint32)) error {
	for number := range m.MaxEntries() {
		var ifindex uint32
		err := m.Lookup(number, &ifindex)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("walk the map %s: %w", m, err)
		}
		do(number, ifindex)
	}
	return nil
}

func deleteKeys[K any](m kernel.Map, unwanted []K, gone func(K) error) error {
	var failed fewErrors
	for _, k := range unwanted {
		if err := m.Delete(k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			failed.add(fmt.Errorf("delete from the map %s: %w", m, err))
			continue
		}
		if gone != nil {
			failed.add(gone(k))
		}
	}
	return failed.err()
}

// pruneFDB removes entries that point at what is no member of their segment any
// more, static ones that are no longer configured, those of BGP where it tells of
// no hosts any more, and learned ones that may not be learned any more.
func (ho *Hosts) pruneFDB(p *plan) error {
	admission, err := ho.admission(p)
	if err != nil {
		return err
	}
	_, err = ho.deleteFDB(func(k bpfFdbKey, e bpfFdbEntry) bool {
		_, static := p.static[k]
		return !ho.members[membership{k.Segment, e.Vport}] || isObsolete(e.Origin, static, p.evpn[k.Segment]) || admission.refusesMAC(k, e)
	})
	return errors.Join(err, trim(ho, ho.fdbTable()))
}

// takeMembers remembers who is a member of which segment from now on.
func (ho *Hosts) takeMembers(p *plan) {
	ho.members = make(map[membership]bool, len(p.members))
	for k, vport := range p.members {
		ho.members[membership{k.Segment, vport}] = true
	}
}

// membership is of an end in a segment.
type membership struct{ segment, vport uint32 }

// isObsolete reports whether who said where a host is does so no more.
func isObsolete(origin bpfHostOrigin, static, evpn bool) bool {
	return origin == bpfHostOriginORIGIN_STATIC && !static || origin == bpfHostOriginORIGIN_BGP && !evpn
}

// deleteFDB removes the entries that match.
func (ho *Hosts) deleteFDB(match func(bpfFdbKey, bpfFdbEntry) bool) (n int, err error) {
	return deleteHosts(ho, ho.fdbTable(), match)
}

// deleteHosts removes the entries of a table that match, and still do when their turn comes, and
// invalidates the decisions about them.
func deleteHosts[K comparable, V any](ho *Hosts, t hostTable[K, V], match func(K, V) bool) (n int, err error) {
	var matching []K
	owners := make(map[uint32]bool)
	err = recount(ho, t, func(k K, v V) {
		if match(k, v) {
			matching = append(matching, k)
			owners[t.learned(&k, &v).owner] = true
		}
	})
	if err != nil || len(matching) == 0 {
		return 0, err
	}
	for _, k := range matching {
		gone, err := deleteHost(ho, t, k, match)
		if err != nil {
			return n, errors.Join(err, ho.changes.changed())
		}
		if gone {
			n++
		}
	}
	ho.prog.filling.of(t.count).less(n)
	for owner := range owners {
		err = errors.Join(err, forgetKeys(ho, t, owner))
	}
	return n, errors.Join(err, ho.changes.changed())
}

func deleteHost[K comparable, V any](ho *Hosts, t hostTable[K, V], k K, match func(K, V) bool) (gone bool, err error) {
	ho.hosting.Lock()
	defer ho.hosting.Unlock()
	var now V
	err = t.Lookup(k, &now)
	if errors.Is(err, ebpf.ErrKeyNotExist) || err == nil && !match(k, now) {
		return false, nil
	}
	if err == nil {
		err = t.Delete(k)
	}
	if errors.Is(err, ebpf.ErrKeyNotExist) { // the data path has evicted it
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("delete from the map %s: %w", t.Map, err)
	}
	ho.limits.countHost(t.learned(&k, &now), t.count, -1)
	t.invalidate(k, now)
	return true, nil
}

// pruneNeighbours removes those of segments that went and of ports and remotes that are no
// members any more, static ones that are no longer configured, those of BGP where it tells of
// no hosts any more, and learned ones that may not be learned any more.
func (ho *Hosts) pruneNeighbours(p *plan) error {
	admission, err := ho.admission(p)
	if err != nil {
		return err
	}
	err = ho.deleteNeighbours(func(k bpfNeighbourKey, n bpfNeighbour) bool {
		_, segment := ho.numbers.names.segments[k.Segment]
		_, static := p.neighbours[k]
		learned := n.Origin == bpfHostOriginORIGIN_LEARNED
		return !segment || learned && !ho.members[membership{k.Segment, n.Vport}] || isObsolete(n.Origin, static, p.evpn[k.Segment]) ||
			admission.refusesNeighbour(k, n)
	})
	return errors.Join(err, trim(ho, ho.neighbourTable()))
}

// deleteNeighbours removes the neighbours that match.
func (ho *Hosts) deleteNeighbours(match func(bpfNeighbourKey, bpfNeighbour) bool) error {
	_, err := deleteHosts(ho, ho.neighbourTable(), match)
	return err
}

func (po *Ports) pruneVports() error {
	policed := false
	live := make(map[uint32]bool)
	for id := range po.numbers.names.ports {
		live[id] = true
	}
	for _, id := range po.numbers.names.pathIDs {
		live[id] = true
	}
	for id := range po.numbers.givenVports() {
		if po.numbers.vports[id].Kind == bpfVportKindVPORT_NONE || live[uint32(id)] {
			continue
		}
		policed = policed || po.numbers.vports[id].Flags&bpfVportFlagsVPORT_FIREWALL != 0
		po.numbers.vports[id] = bpfVport{}
		if err := po.numbers.maps.Vports.Put(uint32(id), po.numbers.vports[id]); err != nil {
			return fmt.Errorf("clear end %d: %w", id, err)
		}
	}
	if !policed || po.prog.cfg.Firewall == nil {
		return nil
	}
	_, err := po.firewall.connections.sweep() // of its connections, which the number's next owner must not get
	return err
}

func (po *Ports) pruneSegments() error {
	for id := range po.numbers.givenSegments() {
		if _, ok := po.numbers.names.segments[uint32(id)]; ok || po.numbers.segments[id].Used == 0 {
			continue
		}
		po.numbers.segments[id] = bpfSegment{}
		now := bpfSegment{}
		if err := po.numbers.maps.Segments.Lookup(uint32(id), &now); err != nil {
			return fmt.Errorf("read segment %d: %w", id, err)
		}
		// The generation goes on, so that a decision about a former owner never fits a new one.
		if err := po.numbers.maps.Segments.Put(uint32(id), bpfSegment{Generation: now.Generation + generationStep, Shards: now.Shards}); err != nil {
			return fmt.Errorf("clear segment %d: %w", id, err)
		}
	}
	return nil
}
