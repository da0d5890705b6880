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
	_, vnis := put(d.objs.Vnis, p.vnis)
	remotes, remoteErr := put(d.objs.Remotes, p.remotes)
	for _, k := range remotes {
		p.touched[k.Segment] = true
	}
	members, memberErr := put(d.objs.Members, p.members)
	for _, k := range members {
		p.touched[k.Segment] = true
	}
	partial = errors.Join(d.putPlaces(p), d.putAllowed(p), vnis, remoteErr, memberErr, d.putStatic(p), d.putNeighbours(p), d.writeTranslation(p))
	if err := errors.Join(d.putSegments(p), d.engage(p)); err != nil {
		return partial, err
	}
	return errors.Join(partial, d.writeRoutes(p)), nil
}

// putPlaces writes where packets come in and which paths they go by.
func (d *Datapath) putPlaces(p *plan) error {
	_, ports := put(d.objs.Ports, p.ports)
	_, teps := put(d.objs.Teps, p.teps)
	_, groups := put(d.objs.PathGroups, p.pathGroups)
	_, options := put(d.objs.KnownOptions, p.options)
	return errors.Join(ports, teps, groups, options)
}

// putAllowed writes who may send from a port; the port's segment decides anew.
func (d *Datapath) putAllowed(p *plan) error {
	macs, macErr := put(d.objs.AllowedMacs, p.allowedMACs)
	for _, k := range macs {
		p.touched[d.vports[k.Vport].Segment] = true
	}
	addrs, addrErr := putTrie(d.objs.AllowedAddrs, p.allowedAddrs)
	for _, k := range addrs {
		p.touched[d.vports[k.Vport].Segment] = true
	}
	return errors.Join(macErr, addrErr)
}

// putNeighbours writes the static ones.
func (d *Datapath) putNeighbours(p *plan) error {
	var failed fewErrors
	for _, k := range keysOf(p.neighbours) {
		mac := p.neighbours[k]
		var now bpfNeighbour
		err := d.objs.Neighbours.Lookup(k, &now)
		if err == nil && now.Origin == bpfHostOriginORIGIN_STATIC && now.Mac == mac {
			continue
		}
		if err := putHost(d, d.neighbourTable(), k, bpfNeighbour{Mac: mac, Origin: bpfHostOriginORIGIN_STATIC}); err != nil {
			failed.add(fmt.Errorf("write the static neighbour %s of segment %s: %w", addrOf(k.Addr.W), d.names.segments[k.Segment], err))
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

func (d *Datapath) putStatic(p *plan) error {
	var failed fewErrors
	for _, k := range keysOf(p.static) {
		vport := p.static[k]
		var now bpfFdbEntry
		err := d.objs.Fdb.Lookup(k, &now)
		if err == nil && now.Origin == bpfHostOriginORIGIN_STATIC && now.Vport == vport {
			continue
		}
		if err := putHost(d, d.fdbTable(), k, bpfFdbEntry{Vport: vport, Origin: bpfHostOriginORIGIN_STATIC}); err != nil {
			failed.add(fmt.Errorf("write the static MAC address %s of segment %s: %w", overlay.MAC(k.Mac), d.names.segments[k.Segment], err))
			continue
		}
		p.touched[k.Segment] = true
	}
	return failed.err()
}

// putSegments writes the segments; one that was touched gets a new generation,
// last, when everything that its decisions depend on is in place.
func (d *Datapath) putSegments(p *plan) error {
	for id := range d.names.segments {
		var now bpfSegment
		if err := d.objs.Segments.Lookup(id, &now); err != nil {
			return fmt.Errorf("read segment %d: %w", id, err)
		}
		want := d.segments[id]
		want.Generation, want.Shards, want.Members = now.Generation, now.Shards, min(p.counts[id], d.segmentMembers())
		if want == now && !p.touched[id] {
			continue
		}
		want.Generation += generationStep
		d.segments[id] = want
		if err := d.objs.Segments.Put(id, want); err != nil {
			return fmt.Errorf("write segment %d: %w", id, err)
		}
	}
	return nil
}

// prune removes what is no longer wanted, from the outside in: first the hooks,
// then the ways in, then what learned entries point at, then the numbers.
func (d *Datapath) prune(p *plan) error {
	errs := []error{
		d.detachRest(p.hooks),
		pruneMap(d.objs.Ports, p.ports, nil),
		pruneMap(d.objs.Vnis, p.vnis, nil),
		pruneMap(d.objs.Remotes, p.remotes, func(k bpfRemoteKey) error { return d.invalidate(k.Segment) }),
		pruneMap(d.objs.Members, p.members, func(k bpfMemberKey) error { return d.invalidate(k.Segment) }),
		pruneMap(d.objs.Teps, p.teps, nil),
		pruneMap(d.objs.PathGroups, p.pathGroups, nil),
		pruneMap(d.objs.TxDevmap, p.txDevices, nil),
		pruneMap(d.objs.TxDevmapGeneric, p.txDevices, nil),
		pruneMap(d.objs.XdpInterfaces, p.xdpInterfaces, nil),
		pruneMap(d.objs.KnownOptions, p.options, nil),
		pruneMap(d.objs.AllowedMacs, p.allowedMACs, func(k bpfAllowedMac) error { return d.invalidatePort(k.Vport) }),
		pruneMap(d.objs.AllowedAddrs, p.allowedAddrs, func(k bpfAllowedAddr) error { return d.invalidatePort(k.Vport) }),
		d.pruneRoutes(p),
		d.pruneTranslation(p),
		d.pruneFDB(p),
		d.pruneNeighbours(p),
		d.pruneVports(),
		d.pruneSegments(),
		d.prunePolicy(p),
		d.changed(),
	}
	return errors.Join(errs...)
}

// pruneMap deletes what is not wanted and tells of each key afterwards: a decision
// that was taken meanwhile may rest on it.
func pruneMap[K, V comparable](m kernel.Map, want map[K]V, gone func(K) error) error {
	var key K
	var value V
	var unwanted []K
	it := m.Iterate()
	for it.Next(&key, &value) {
		if _, ok := want[key]; !ok {
			unwanted = append(unwanted, key)
		}
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("walk the map %s: %w", m, err)
	}
	for _, k := range unwanted {
		if err := m.Delete(k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("delete from the map %s: %w", m, err)
		}
		if gone == nil {
			continue
		}
		if err := gone(k); err != nil {
			return err
		}
	}
	return nil
}

// pruneFDB removes entries that point at what is no member of their segment any
// more, static ones that are no longer configured, and those of BGP where it tells of
// no hosts any more.
func (d *Datapath) pruneFDB(p *plan) error {
	d.members = make(map[membership]bool, len(p.members))
	for k, vport := range p.members {
		d.members[membership{k.Segment, vport}] = true
	}
	_, err := d.deleteFDB(func(k bpfFdbKey, e bpfFdbEntry) bool {
		_, static := p.static[k]
		return !d.members[membership{k.Segment, e.Vport}] || isObsolete(e.Origin, static, p.evpn[k.Segment])
	})
	return err
}

// membership is of an end in a segment.
type membership struct{ segment, vport uint32 }

// isObsolete reports whether who said where a host is does so no more.
func isObsolete(origin bpfHostOrigin, static, evpn bool) bool {
	return origin == bpfHostOriginORIGIN_STATIC && !static || origin == bpfHostOriginORIGIN_BGP && !evpn
}

// deleteFDB removes the entries that match.
func (d *Datapath) deleteFDB(match func(bpfFdbKey, bpfFdbEntry) bool) (n int, err error) {
	return deleteHosts(d, d.fdbTable(), match)
}

// deleteHosts removes the entries of a table that match, and still do when their turn comes, and
// invalidates the decisions about them.
func deleteHosts[K comparable, V any](d *Datapath, t hostTable[K, V], match func(K, V) bool) (n int, err error) {
	var matching []K
	owners := make(map[uint32]bool)
	err = recount(d, t, func(k K, v V) {
		if match(k, v) {
			matching = append(matching, k)
			owners[t.learned(&k, &v).owner] = true
		}
	})
	if err != nil || len(matching) == 0 {
		return 0, err
	}
	for _, k := range matching {
		gone, err := deleteHost(d, t, k, match)
		if err != nil {
			return n, errors.Join(err, d.changed())
		}
		if gone {
			n++
		}
	}
	for owner := range owners {
		err = errors.Join(err, forgetKeys(d, t, owner))
	}
	return n, errors.Join(err, d.changed())
}

func deleteHost[K comparable, V any](d *Datapath, t hostTable[K, V], k K, match func(K, V) bool) (gone bool, err error) {
	d.hosting.Lock()
	defer d.hosting.Unlock()
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
	d.countHost(t.learned(&k, &now), t.count, -1)
	t.invalidate(k, now)
	return true, nil
}

// pruneNeighbours removes those of segments that went and of ports and remotes that are no
// members any more, static ones that are no longer configured, and those of BGP where it tells of
// no hosts any more.
func (d *Datapath) pruneNeighbours(p *plan) error {
	return d.deleteNeighbours(func(k bpfNeighbourKey, n bpfNeighbour) bool {
		_, segment := d.names.segments[k.Segment]
		_, static := p.neighbours[k]
		learned := n.Origin == bpfHostOriginORIGIN_LEARNED
		return !segment || learned && !d.members[membership{k.Segment, n.Vport}] || isObsolete(n.Origin, static, p.evpn[k.Segment])
	})
}

// deleteNeighbours removes the neighbours that match.
func (d *Datapath) deleteNeighbours(match func(bpfNeighbourKey, bpfNeighbour) bool) error {
	_, err := deleteHosts(d, d.neighbourTable(), match)
	return err
}

func (d *Datapath) pruneVports() error {
	policed := false
	live := make(map[uint32]bool)
	for id := range d.names.ports {
		live[id] = true
	}
	for _, id := range d.names.pathIDs {
		live[id] = true
	}
	for id := range d.vports {
		if d.vports[id].Kind == bpfVportKindVPORT_NONE || live[uint32(id)] {
			continue
		}
		policed = policed || d.vports[id].Flags&bpfVportFlagsVPORT_FIREWALL != 0
		d.vports[id] = bpfVport{}
		if err := d.objs.Vports.Put(uint32(id), d.vports[id]); err != nil {
			return fmt.Errorf("clear end %d: %w", id, err)
		}
	}
	if !policed || d.cfg.Firewall == nil {
		return nil
	}
	_, err := d.fw.connections.sweep() // of its connections, which the number's next owner must not get
	return err
}

func (d *Datapath) pruneSegments() error {
	for id := range d.segments {
		if _, ok := d.names.segments[uint32(id)]; ok || d.segments[id].Used == 0 {
			continue
		}
		d.segments[id] = bpfSegment{}
		now := bpfSegment{}
		if err := d.objs.Segments.Lookup(uint32(id), &now); err != nil {
			return fmt.Errorf("read segment %d: %w", id, err)
		}
		// The generation goes on, so that a decision about a former owner never fits a new one.
		if err := d.objs.Segments.Put(uint32(id), bpfSegment{Generation: now.Generation + generationStep, Shards: now.Shards}); err != nil {
			return fmt.Errorf("clear segment %d: %w", id, err)
		}
	}
	return nil
}
