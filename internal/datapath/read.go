package datapath

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/overlay"
)

// How many entries of a map are read with one system call: at first, as most maps have few, and then.
const firstBatch, batch = 256, 4096

// walk calls do for every entry. It does not stop the data path, so an entry that
// is added or removed meanwhile may or may not be seen.
func walk[K, V any](m kernel.Map, do func(K, V)) error {
	return walkWhile(m, func(k *K, v *V) bool {
		do(*k, *v)
		return true
	})
}

// walkWhile does so until do returns false.
func walkWhile[K, V any](m kernel.Map, do func(*K, *V) bool) error {
	var keys []K
	var values []V
	var cursor kernel.Cursor
	for full := true; ; {
		if size := min(batch, max(firstBatch, 4*len(keys))); full && size > len(keys) {
			keys, values = make([]K, size), make([]V, size)
		}
		n, err := m.BatchLookup(&cursor, keys, values)
		full = n > len(keys)/2
		for i := range n {
			if !do(&keys[i], &values[i]) {
				return nil
			}
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("walk the map %s: %w", m, err)
		}
	}
}

// since is how long ago then was, as ns_since of bpf/core/pkt.h: what another gateway has seen
// may lie before this machine's clock began, and what another core has just seen after now.
func since(now, then uint64) uint64 { return uint64(max(int64(now-then), 0)) }

// ago is the time so long before now.
func ago(now, ns uint64) uint64 { return now - min(ns, math.MaxInt64/2) }

// isBefore reports whether a was before b.
func isBefore(a, b uint64) bool { return int64(a-b) < 0 }

// origins are the model's by the data path's numbers.
var origins = map[bpfHostOrigin]Origin{
	bpfHostOriginORIGIN_LEARNED: OriginLearned, bpfHostOriginORIGIN_STATIC: OriginStatic, bpfHostOriginORIGIN_BGP: OriginBGP,
}

// FDB lists the forwarding database.
func (ho *Hosts) FDB() ([]FDBEntry, error) {
	now, err := ho.prog.kernel.Clock.Monotonic()
	if err != nil {
		return nil, err
	}
	list := []FDBEntry{}
	err = walk(ho.maps.Fdb, func(k bpfFdbKey, e bpfFdbEntry) {
		entry := FDBEntry{
			Segment: ho.numbers.names.segments[k.Segment], MAC: k.Mac,
			Static: e.Origin == bpfHostOriginORIGIN_STATIC, Origin: origins[e.Origin], Sticky: e.Sticky == 1, Moves: e.Moves,
		}
		entry.Port, entry.Remote = ho.numbers.vportName(e.Vport)
		if !entry.Static {
			entry.AgeNS = since(now, e.SeenNs)
		}
		if nowS := uint32(now / uint64(time.Second)); e.FrozenS > nowS {
			entry.Frozen = time.Duration(e.FrozenS-nowS) * time.Second
			entry.Other = ho.numbers.placeName(e.Other)
		}
		list = append(list, entry)
	})
	return list, err
}

// placeName is the port's name or the remote's address, for people.
func (nu *numbers) placeName(id uint32) string {
	port, remote := nu.vportName(id)
	if remote.IsValid() {
		return remote.String()
	}
	return port
}

// vportName is the port's name or the remote's address.
func (nu *numbers) vportName(id uint32) (port string, remote netip.Addr) {
	if id == 0 || int(id) >= len(nu.vports) {
		return "", netip.Addr{}
	}
	if nu.vports[id].Kind == bpfVportKindVPORT_TEP {
		addr := addrOf(nu.vports[id].Addr.W)
		return "", cmp.Or(nu.edges[addr], addr)
	}
	return nu.names.ports[id], netip.Addr{}
}

// Flows lists the cached decisions. One that a change has outdated is on the slow
// path until its next packet.
func (fl *Flows) Flows() ([]Flow, error) {
	now, err := fl.prog.kernel.Clock.Monotonic()
	if err != nil {
		return nil, err
	}
	generations, err := fl.changes.generations()
	if err != nil {
		return nil, err
	}
	list := []Flow{}
	err = walk(fl.maps.Flows, func(_ uint64, f bpfFlow) {
		list = append(list, fl.flow(&f, now, generations))
	})
	if err != nil {
		return nil, err
	}
	transit, err := fl.transitFlows(now)
	for _, f := range transit {
		list = append(list, fl.flow(&f, now, generations))
	}
	return list, err
}

func (fl *Flows) flow(f *bpfFlow, now uint64, generations generations) Flow {
	k := &f.Key
	flow := Flow{
		Segment: fl.numbers.names.segments[uint32(f.Decision.Segment)],
		SrcMAC:  overlay.MAC(k.Smac), DstMAC: overlay.MAC(k.Dmac),
		EtherType: wire16(k.Ethertype), Proto: k.Proto,
		SrcPort: wire16(k.Sport), DstPort: wire16(k.Dport),
		Packets: f.Packets, Bytes: f.Bytes, IdleNS: since(now, f.SeenNs),
	}
	if flow.EtherType == etherTypeIPv4 || flow.EtherType == etherTypeIPv6 {
		flow.Src, flow.Dst = addrOf(k.Saddr.W), addrOf(k.Daddr.W)
	}
	if f.Decision.Flags&bpfFlowFlagsFLOW_ROUTED != 0 {
		flow.OutSegment = fl.numbers.names.segments[uint32(f.Decision.ToSegment)]
	}
	if f.Decision.Flags&bpfFlowFlagsFLOW_SNAT != 0 {
		flow.ToSrc = netip.AddrPortFrom(addrOf(f.Translation.Src.W), wire16(f.Translation.Sport))
	}
	if f.Decision.Flags&bpfFlowFlagsFLOW_DNAT != 0 {
		flow.ToDst = netip.AddrPortFrom(addrOf(f.Translation.Dst.W), wire16(f.Translation.Dport))
	}
	flow.InPort, flow.InRemote = fl.numbers.vportName(uint32(f.Decision.In))
	if f.Decision.Action != bpfActionACTION_FLOOD {
		flow.OutPort, flow.OutRemote = fl.numbers.vportName(uint32(f.Decision.Out))
	}
	switch {
	case f.Decision.Slow != bpfSlowSLOW_FAST && int(f.Decision.Slow) < len(fl.prog.words.slows):
		flow.Why = fl.prog.words.slows[f.Decision.Slow].text
	case !generations.isCurrent(k, &f.Decision):
		flow.Why = "outdated by a change; the next packet is decided again"
	case !fl.prog.cfg.FlowCache.Enabled:
		flow.Why = fl.prog.words.slows[bpfSlowSLOW_CACHE_OFF].text
	default:
		flow.FastPath = true
	}
	return flow
}

// traffic sums an end's counters over the cores.
func (tf *Traffic) traffic(id uint32) (bpfVportCounters, error) {
	var perCPU []bpfVportCounters
	if err := tf.maps.Traffic.Lookup(id, &perCPU); err != nil {
		return bpfVportCounters{}, fmt.Errorf("read the counters of end %d: %w", id, err)
	}
	return sumOf(perCPU), nil
}

func sumOf(perCPU []bpfVportCounters) (sum bpfVportCounters) {
	for _, c := range perCPU {
		sum.Rx.Packets += c.Rx.Packets
		sum.Rx.Bytes += c.Rx.Bytes
		sum.Tx.Packets += c.Tx.Packets
		sum.Tx.Bytes += c.Tx.Bytes
		sum.Drops += c.Drops
	}
	return sum
}

// fewVports is of how many ends the counters are read one by one. Of more they are read with one system call.
const fewVports = 32

// trafficOf are the counters of ends, by their numbers.
func (tf *Traffic) trafficOf(ids iter.Seq[uint32], n int) (map[uint32]bpfVportCounters, error) {
	sums := make(map[uint32]bpfVportCounters, n)
	if n <= fewVports {
		for id := range ids {
			sum, err := tf.traffic(id)
			if err != nil {
				return nil, err
			}
			sums[id] = sum
		}
		return sums, nil
	}
	var last uint32
	for id := range ids {
		last = max(last, id)
	}
	perCPU, cores, err := readSomePerCPU[bpfVportCounters](tf.prog, tf.maps.Traffic, last+1)
	if err != nil {
		return nil, err
	}
	for id := range ids {
		sums[id] = sumOf(perCPU[int(id)*cores : (int(id)+1)*cores])
	}
	return sums, nil
}

// clearTraffic starts the counters of a number's new owner at zero.
func (tf *Traffic) clearTraffic(id uint32) error {
	n, err := tf.prog.kernel.Loader.Cores()
	if err != nil {
		return err
	}
	if err := tf.maps.Traffic.Put(id, make([]bpfVportCounters, n)); err != nil {
		return fmt.Errorf("clear the counters of end %d: %w", id, err)
	}
	return nil
}

// Ports reads the counters of every port, by name.
func (tf *Traffic) Ports() (map[string]PortCounters, error) {
	all := make(map[string]PortCounters, len(tf.numbers.names.portIDs))
	counters, err := tf.trafficOf(maps.Values(tf.numbers.names.portIDs), len(tf.numbers.names.portIDs))
	if err != nil {
		return nil, err
	}
	for name, id := range tf.numbers.names.portIDs {
		c := counters[id]
		all[name] = PortCounters{Rx: toCounters(c.Rx), Tx: toCounters(c.Tx), Drops: c.Drops}
	}
	return all, nil
}

// TEPs reads the counters of every remote, by its first address. What was sent is the
// sum over its paths.
func (tf *Traffic) TEPs() (map[netip.Addr]TEPCounters, error) {
	all := make(map[netip.Addr]TEPCounters, len(tf.numbers.names.tepIDs))
	counters, err := tf.trafficOf(maps.Values(tf.numbers.names.pathIDs), len(tf.numbers.names.pathIDs))
	if err != nil {
		return nil, err
	}
	for pair, id := range tf.numbers.names.pathIDs {
		c := counters[id]
		edge := tf.numbers.edges[pair.Remote]
		sum := all[edge]
		sum.Rx, sum.Tx = sum.Rx.plus(toCounters(c.Rx)), sum.Tx.plus(toCounters(c.Tx))
		all[edge] = sum
	}
	return all, nil
}

// Paths reads what was sent by each path.
func (tf *Traffic) Paths() (map[overlay.Pair]Counters, error) {
	all := make(map[overlay.Pair]Counters, len(tf.numbers.names.pathIDs))
	counters, err := tf.trafficOf(maps.Values(tf.numbers.names.pathIDs), len(tf.numbers.names.pathIDs))
	if err != nil {
		return nil, err
	}
	for pair, id := range tf.numbers.names.pathIDs {
		all[pair] = toCounters(counters[id].Tx)
	}
	return all, nil
}

func (c Counters) plus(o Counters) Counters {
	return Counters{Packets: c.Packets + o.Packets, Bytes: c.Bytes + o.Bytes}
}

func toCounters(c bpfCounter) Counters { return Counters{Packets: c.Packets, Bytes: c.Bytes} }

// Stats are the totals of the data path.
type Stats struct {
	Hits, Misses, Dropped uint64
	FDBUsed, FlowsUsed    int
	Generations           map[string]uint32 // by segment: the sum of all of it
	Events                map[string]uint64 // by name
	Caches                []Cache
}

// Cache is a table of decisions.
type Cache struct {
	Name  string // CacheTC or CacheTransit
	Used  int    // flows
	Size  int    // entries; of CacheTransit, of all cores
	Bytes uint64 // memory
}

// The caches: of tc, which all cores share, and of the transit programs, in which
// each core has a part of its own.
const (
	CacheTC      = "tc"
	CacheTransit = "transit"
)

// keepSecret writes the secret of digests where there is none yet. It lasts as long as the flows.
func (fl *Flows) keepSecret() error {
	var s bpfFlowSecret
	if err := fl.maps.FlowSecret.Lookup(uint32(0), &s); err != nil {
		return fmt.Errorf("read the secret of flows: %w", err)
	}
	if s != (bpfFlowSecret{}) {
		return nil
	}
	for i := range s.Words {
		s.Words[i] = uint32(fl.prog.kernel.Random() >> 32)
	}
	if err := fl.maps.FlowSecret.Put(uint32(0), s); err != nil {
		return fmt.Errorf("write the secret of flows: %w", err)
	}
	return nil
}

func (fl *Flows) caches() ([]Cache, error) {
	tc := fl.tcCache()
	if err := walk(fl.maps.Flows, func(uint64, bpfFlow) { tc.Used++ }); err != nil {
		return nil, err
	}
	fl.prog.filling.flows.set(tc.Used)
	if !fl.prog.cfg.Transit {
		return []Cache{tc}, nil
	}
	transit, err := fl.transitCache()
	return []Cache{tc, transit}, err
}

// tcCache has no entries counted.
func (fl *Flows) tcCache() Cache {
	return Cache{Name: CacheTC, Size: int(fl.maps.Flows.MaxEntries()), Bytes: fl.maps.Flows.Memlock()}
}

func (fl *Flows) transitCache() (Cache, error) {
	tables, err := fl.traffic.transitTables()
	transit := Cache{Name: CacheTransit, Size: int(fl.maps.TransitCache.MaxEntries()), Bytes: fl.maps.TransitCache.Memlock()}
	for _, t := range tables {
		transit.Used += int(t.Used)
	}
	return transit, err
}

// Stats reads the totals. Counting the entries walks the maps.
func (fl *Flows) Stats() (s Stats, err error) {
	if s, err = fl.counted(); err != nil {
		return s, err
	}
	if err := walk(fl.hosts.maps.Fdb, func(bpfFdbKey, bpfFdbEntry) { s.FDBUsed++ }); err != nil {
		return s, err
	}
	fl.prog.filling.fdb.set(s.FDBUsed)
	if s.Caches, err = fl.caches(); err != nil {
		return s, err
	}
	for _, c := range s.Caches {
		s.FlowsUsed += c.Used
	}
	return s, nil
}

// counted are the totals that the data path counts.
func (fl *Flows) counted() (Stats, error) {
	s := Stats{Generations: map[string]uint32{}}
	var err error
	if s.Events, err = fl.traffic.Events(); err != nil {
		return s, err
	}
	s.Hits = s.Events[fl.prog.words.events[bpfEventEVENT_HIT].name]
	s.Misses = s.Events[fl.prog.words.events[bpfEventEVENT_MISS].name]
	drops, err := fl.traffic.Drops()
	if err != nil {
		return s, err
	}
	for _, drop := range drops {
		s.Dropped += drop.Packets
	}
	generations, err := fl.changes.generations()
	for id, g := range generations.segments {
		s.Generations[fl.numbers.names.segments[id]] = total(g)
	}
	return s, err
}

// flowIdle is after how long without a packet a cached decision is forgotten.
const flowIdle = 5 * time.Minute

// Age removes learned FDB entries that were silent for longer than ageing (0
// keeps them) and decisions of flows that ended. It returns how many MACs went.
func (d *Datapath) Age(ageing time.Duration) (aged int, err error) {
	now, err := d.prog.kernel.Clock.Monotonic()
	if err != nil {
		return 0, err
	}
	if ageing == 0 {
		err = d.Hosts.countHosts()
	} else {
		aged, err = d.Hosts.deleteFDB(func(_ bpfFdbKey, e bpfFdbEntry) bool {
			return e.Origin == bpfHostOriginORIGIN_LEARNED && since(now, e.SeenNs) > uint64(ageing)
		})
	}
	if err != nil {
		return aged, err
	}
	if err := d.Hosts.ageNeighbours(now, ageing); err != nil {
		return aged, err
	}
	return aged, d.Flows.ageFlows(now)
}

// quiet is how often in a row the decisions were walked and there were none, with no miss in between.
type quiet struct {
	misses uint64
	walks  int
}

// isEmpty reports whether there can be no decision: each begins with a miss. One that missed before a walk may come in behind it, so
// two walks have to find none.
func (q *quiet) isEmpty(misses uint64) bool {
	if misses != q.misses {
		*q = quiet{misses: misses}
	}
	return q.walks >= 2
}

func (q *quiet) walked(found int) {
	if q.walks++; found > 0 {
		q.walks = 0
	}
}

// ageFlows removes idle decisions, and corrects how many each port has: the kernel evicts some.
func (fl *Flows) ageFlows(now uint64) error {
	events, err := fl.traffic.Events()
	if err != nil {
		return err
	}
	if fl.quiet.isEmpty(events[fl.prog.words.events[bpfEventEVENT_MISS].name]) {
		return nil
	}
	var idle []uint64 // digests
	n := 0
	found := fl.limits.beginRecount(bpfLimitedCountCOUNT_FLOWS)
	err = walk(fl.maps.Flows, func(digest uint64, f bpfFlow) {
		n++
		if since(now, f.SeenNs) > uint64(flowIdle) {
			idle = append(idle, digest)
		} else {
			found.add(uint32(f.Decision.In))
		}
	})
	if err != nil {
		return err
	}
	fl.quiet.walked(n)
	fl.limits.endRecount(bpfLimitedCountCOUNT_FLOWS, found)
	fl.prog.filling.flows.set(n - len(idle))
	if err := fl.limits.clearFlowRings(); err != nil {
		return err
	}
	for _, digest := range idle {
		if err := fl.maps.Flows.Delete(digest); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("delete a flow: %w", err)
		}
	}
	return nil
}
