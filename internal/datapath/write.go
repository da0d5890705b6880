package datapath

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// write fills the maps with what is planned and marks the segments that it touched.
func (d *Datapath) write(p *plan) error {
	if err := d.putPlaces(p); err != nil {
		return err
	}
	if err := d.putAllowed(p); err != nil {
		return err
	}
	if _, err := put(d.objs.Vnis, p.vnis); err != nil {
		return err
	}
	remotes, err := put(d.objs.Remotes, p.remotes)
	if err != nil {
		return err
	}
	for _, k := range remotes {
		p.touched[k.Segment] = true
	}
	members, err := put(d.objs.Members, p.members)
	if err != nil {
		return err
	}
	for _, k := range members {
		p.touched[k.Segment] = true
	}
	if err := d.putStatic(p); err != nil {
		return err
	}
	if err := d.putNeighbours(p); err != nil {
		return err
	}
	if err := d.writeTranslation(p); err != nil {
		return err
	}
	if err := d.putSegments(p); err != nil {
		return err
	}
	if err := d.engage(p); err != nil {
		return err
	}
	return d.writeRoutes(p)
}

// putPlaces writes where packets come in and which paths they go by.
func (d *Datapath) putPlaces(p *plan) error {
	if _, err := put(d.objs.Ports, p.ports); err != nil {
		return err
	}
	if _, err := put(d.objs.Teps, p.teps); err != nil {
		return err
	}
	if _, err := put(d.objs.PathGroups, p.pathGroups); err != nil {
		return err
	}
	_, err := put(d.objs.KnownOptions, p.options)
	return err
}

// putAllowed writes who may send from a port; the port's segment decides anew.
func (d *Datapath) putAllowed(p *plan) error {
	macs, err := put(d.objs.AllowedMacs, p.allowedMACs)
	if err != nil {
		return err
	}
	for _, k := range macs {
		p.touched[d.vports[k.Vport].Segment] = true
	}
	addrs, err := putTrie(d.objs.AllowedAddrs, p.allowedAddrs)
	if err != nil {
		return err
	}
	for _, k := range addrs {
		p.touched[d.vports[k.Vport].Segment] = true
	}
	return nil
}

// putNeighbours writes the static ones.
func (d *Datapath) putNeighbours(p *plan) error {
	for k, mac := range p.neighbours {
		var now bpfNeighbour
		err := d.objs.Neighbours.Lookup(k, &now)
		if err == nil && now.Origin == bpfHostOriginORIGIN_STATIC && now.Mac == mac {
			continue
		}
		if err := d.objs.Neighbours.Put(k, bpfNeighbour{Mac: mac, Origin: bpfHostOriginORIGIN_STATIC}); err != nil {
			return fmt.Errorf("write a static neighbour: %w", err)
		}
		p.touched[k.Segment] = true
	}
	return nil
}

// put writes the entries that differ and returns their keys.
func put[K, V comparable](m *ebpf.Map, want map[K]V) ([]K, error) {
	var changed []K
	for k, v := range want {
		var now V
		err := m.Lookup(k, &now)
		if err == nil && now == v {
			continue
		}
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil, fmt.Errorf("read the map %s: %w", m, err)
		}
		if err := m.Put(k, v); err != nil {
			return nil, fmt.Errorf("write the map %s: %w", m, err)
		}
		changed = append(changed, k)
	}
	return changed, nil
}

func (d *Datapath) putStatic(p *plan) error {
	for k, vport := range p.static {
		var now bpfFdbEntry
		err := d.objs.Fdb.Lookup(k, &now)
		if err == nil && now.Origin == bpfHostOriginORIGIN_STATIC && now.Vport == vport {
			continue
		}
		if err := d.objs.Fdb.Put(k, bpfFdbEntry{Vport: vport, Origin: bpfHostOriginORIGIN_STATIC}); err != nil {
			return fmt.Errorf("write a static FDB entry: %w", err)
		}
		p.touched[k.Segment] = true
	}
	return nil
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
		want.Generation, want.Shards, want.Members = now.Generation, now.Shards, p.counts[id]
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
func pruneMap[K, V comparable](m *ebpf.Map, want map[K]V, gone func(K) error) error {
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

// deleteFDB removes the entries that match and outdates the decisions about them.
func (d *Datapath) deleteFDB(match func(bpfFdbKey, bpfFdbEntry) bool) (n int, err error) {
	gone, err := deleteHosts(d, d.objs.Fdb, match)
	for k := range gone {
		d.invalidateMAC(k.Segment, k.Mac)
	}
	if len(gone) == 0 {
		return 0, err
	}
	return len(gone), errors.Join(err, d.changed())
}

// deleteHosts removes the entries of a table that match, and still do when their turn comes.
func deleteHosts[K comparable, V any](d *Datapath, table *ebpf.Map, match func(K, V) bool) (gone map[K]V, err error) {
	gone = make(map[K]V)
	err = walk(table, func(k K, v V) {
		if match(k, v) {
			gone[k] = v
		}
	})
	if err != nil {
		return nil, err
	}
	for k := range gone {
		stays, err := deleteHost(d, table, k, match)
		if err != nil {
			return gone, err
		}
		if stays {
			delete(gone, k)
		}
	}
	return gone, nil
}

func deleteHost[K comparable, V any](d *Datapath, table *ebpf.Map, k K, match func(K, V) bool) (stays bool, err error) {
	d.hosting.Lock()
	defer d.hosting.Unlock()
	var now V
	err = table.Lookup(k, &now)
	if err == nil && !match(k, now) {
		return true, nil
	}
	if err == nil {
		err = table.Delete(k)
	}
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return true, fmt.Errorf("delete from the map %s: %w", table, err)
	}
	return false, nil
}

// pruneNeighbours removes those of segments that went, static ones that are no longer
// configured, and those of BGP where it tells of no hosts any more.
func (d *Datapath) pruneNeighbours(p *plan) error {
	return d.deleteNeighbours(func(k bpfNeighbourKey, n bpfNeighbour) bool {
		_, segment := d.names.segments[k.Segment]
		_, static := p.neighbours[k]
		return !segment || isObsolete(n.Origin, static, p.evpn[k.Segment])
	})
}

// deleteNeighbours removes the neighbours that match and outdates the decisions about them.
func (d *Datapath) deleteNeighbours(match func(bpfNeighbourKey, bpfNeighbour) bool) error {
	gone, err := deleteHosts(d, d.objs.Neighbours, match)
	for k, n := range gone {
		d.invalidateMAC(k.Segment, n.Mac)
	}
	if len(gone) == 0 {
		return err
	}
	return errors.Join(err, d.changed())
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
