package datapath

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/fib"
)

// Refused are the interfaces whose drivers did not take a transit program, by
// ifindex, and why: their packets are tc's.
func (ln *Links) Refused() map[int]string {
	refused := make(map[int]string, len(ln.refused))
	for h, r := range ln.refused {
		refused[h.ifindex] = r.why
	}
	return refused
}

// transitSlots is how many shortcuts each of so many cores may have for a cache of so
// many flows, a power of two. Flows spread over the cores (RSS), but not evenly, and a
// hash table wants air: each core has room for four times its share, rounded down.
func transitSlots(cfg Config, flows, cores uint32) uint32 {
	const fewest = 1024 // FEWEST_SLOTS of bpf/cache/transit_cache.h
	if !cfg.Transit || !cfg.FlowCache.Enabled {
		return 4
	}
	share := max(4*uint64(flows)/uint64(cores), fewest)
	return 1 << (bits.Len64(share) - 1)
}

// transitActions is how many actions flows of so many shortcuts share on a core, a power of two that fits an entry.
// They are few: one for each remote's router, way out and sender of frames.
func transitActions(slots uint32) uint32 { return min(max(slots/16, 4), 1<<16) }

// transitProgram loads the program of one interface upon the maps that are there.
func (pr *programs) transitProgram(dev fib.Transit) (kernel.Program, error) {
	spec, err := loadTransit()
	if err != nil {
		return nil, err
	}
	if err := pr.configure(spec); err != nil {
		return nil, err
	}
	var flags bpfDeviceFlags
	if dev.Underlay {
		flags |= bpfDeviceFlagsDEVICE_UNDERLAY
	}
	if dev.Uplink {
		flags |= bpfDeviceFlagsDEVICE_UPLINK
	}
	for name, value := range map[string]any{
		transitVarThisFlags: flags, transitVarThisIfindex: uint32(dev.Ifindex), transitVarThisMac: dev.MAC,
		transitVarThisCsumPartial: dev.CsumPartial,
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	if dev.Generic {
		// For a program that takes fragments, generic XDP makes a copy of the packet that
		// has forgotten where its Ethernet header ends, and tc would misread it.
		for _, program := range spec.Programs {
			program.Flags &^= unix.BPF_F_XDP_HAS_FRAGS
		}
	}
	maps := pr.maps()
	if dev.Generic {
		maps[transitMapTxDevmap] = maps[bpfMapTxDevmapGeneric]
	}
	if !dev.AsksTags {
		return pr.loadOne(spec, transitProgTransit, maps)
	}
	bind(spec, transitProgTransitAsking, dev.Ifindex)
	bound, err := pr.loadOne(spec, transitProgTransitAsking, maps)
	if err != nil {
		return nil, driverRefusal{err}
	}
	return bound, nil
}

// bind has a program be for one device, which may then be asked for the metadata of packets.
func bind(spec *ebpf.CollectionSpec, program string, ifindex int) {
	p := spec.Programs[program]
	p.Flags |= unix.BPF_F_XDP_DEV_BOUND_ONLY
	p.Ifindex = uint32(ifindex)
}

// loadOne loads one program of an object upon those of maps that it has.
func (pr *programs) loadOne(spec *ebpf.CollectionSpec, name string, maps map[string]kernel.Map) (kernel.Program, error) {
	spec.Programs = map[string]*ebpf.ProgramSpec{name: spec.Programs[name]}
	objects, err := pr.loadUpon(spec, maps)
	if err != nil {
		return nil, err
	}
	defer objects.Close()
	return objects.TakeProgram(name), nil
}

// maxTxDevices is MAX_EXITS of bpf/abi/abi.h.
const maxTxDevices = 256

// numberTxDevices keeps the number of an interface, which ends hold, while it is an exit.
func (ln *Links) numberTxDevices(txDevices []int, p *plan) error {
	now := make(map[uint32]uint32)
	if err := walkDevmap(ln.maps.TxDevmap, func(number, ifindex uint32) { now[number] = ifindex }); err != nil {
		return err
	}
	for number, ifindex := range now {
		if slices.Contains(txDevices, int(ifindex)) {
			p.txDevices[number] = ifindex
		}
	}
	known := slices.Collect(maps.Values(p.txDevices))
	for _, ifindex := range txDevices {
		if slices.Contains(known, uint32(ifindex)) {
			continue
		}
		number := uint32(0)
		for ; number < maxTxDevices; number++ {
			if _, taken := now[number]; !taken { // not one that ends may still hold
				break
			}
		}
		if number == maxTxDevices { // tc sends there
			p.unplaced.add(fmt.Errorf("more than %d interfaces that transit programs send to", maxTxDevices))
			break
		}
		now[number], p.txDevices[number] = uint32(ifindex), uint32(ifindex)
	}
	return nil
}

// leaveBy notes that transit programs may send to the end's interface.
func leaveBy(vport *bpfVport, p *plan) {
	for number, ifindex := range p.txDevices {
		if ifindex == vport.Ifindex {
			vport.Flags |= bpfVportFlagsVPORT_TRANSIT
			vport.TxIndex = uint16(number)
		}
	}
}

// refusedProgram loads a program that counts what the exits did not take. It must be
// called in the network namespace of the edge.
func (pr *programs) refusedProgram(program string) (kernel.Program, error) {
	spec, err := loadDevmapDrops()
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &st); err != nil {
		return nil, fmt.Errorf("look at the network namespace: %w", err)
	}
	if err := spec.Variables[devmapDropsVarThisNetns].Set(uint32(st.Ino)); err != nil {
		return nil, fmt.Errorf("set %s: %w", devmapDropsVarThisNetns, err)
	}
	return pr.loadOne(spec, program, pr.maps())
}

// planTransit plans the transit programs and writes where they may send to. It comes
// before the ends, which point there.
func (ln *Links) planTransit(t fib.Tables, p *plan) error {
	for _, dev := range t.Transit {
		role := roleTransit
		if dev.Generic {
			role = roleGeneric
		}
		h := hook{role, dev.Ifindex}
		p.hooks[h], p.devices[h] = true, dev
		p.xdpInterfaces[uint32(dev.Ifindex)] = 1
		p.hooks[hook{role: roleNotSent}], p.hooks[hook{role: roleNotRedirected}] = true, true
	}
	if _, err := put(ln.maps.XdpInterfaces, p.xdpInterfaces); err != nil {
		return err
	}
	if err := ln.numberTxDevices(t.TxDevices, p); err != nil {
		return err
	}
	_, err := put(ln.maps.TxDevmap, p.txDevices)
	if err == nil {
		_, err = put(ln.maps.TxDevmapGeneric, p.txDevices)
	}
	return err
}

// transitFlows are the transit programs' flows that had a packet lately, of all cores.
// When that was they tell no closer than by the age at which a decision is taken anew.
func (fl *Flows) transitFlows(now uint64) (map[bpfFlowKey]bpfFlow, error) {
	flows := make(map[bpfFlowKey]bpfFlow)
	if !fl.prog.cfg.Transit {
		return flows, nil
	}
	epoch, err := fl.changes.globalCounter(bpfGlobalCounterGLOBAL_CLOCK)
	if err != nil {
		return nil, err
	}
	err = fl.eachTransitEntry(func(s *bpfTransitEntry, a *bpfTransitAction) {
		idle := uint64(uint8(epoch)-s.Age) * fl.changes.epochNS()
		packets := uint64(s.PacketsHigh)<<32 | uint64(s.Packets)
		if packets == 0 || idle > uint64(flowIdle) {
			return
		}
		key := transitKey(s, a)
		f := bpfFlow{Key: key, Decision: a.Decision, SeenNs: ago(now, idle), Packets: packets, Bytes: s.Bytes}
		f.Decision.Generation = s.Generation
		if other, ok := flows[key]; ok { // of another core, or from before the table had another size
			f.Packets += other.Packets
			f.Bytes += other.Bytes
			if isBefore(f.SeenNs, other.SeenNs) {
				f.Decision, f.SeenNs = other.Decision, other.SeenNs
			}
		}
		flows[key] = f
	})
	return flows, err
}

// transitKey is the key of a shortcut's flow.
func transitKey(s *bpfTransitEntry, a *bpfTransitAction) bpfFlowKey {
	return bpfFlowKey{
		Origin: a.Origin, Vni: a.Vni, Tags: a.Tags, Dmac: a.Dmac, Smac: a.Smac, Ethertype: s.Ethertype, Proto: s.Proto, Fragment: s.Fragment,
		Saddr: s.Saddr, Daddr: s.Daddr, Sport: s.Sport, Dport: s.Dport,
	}
}

// eachTransitEntry calls do for every shortcut that the cores have, with its action. It reads the
// memory that the programs write, so an entry may be half another's.
func (fl *Flows) eachTransitEntry(do func(*bpfTransitEntry, *bpfTransitAction)) error {
	tables, err := fl.traffic.transitTables()
	if err != nil {
		return err
	}
	memory, err := fl.maps.TransitCache.Memory()
	if err != nil {
		return err
	}
	shared, err := fl.maps.TransitActions.Memory()
	if err != nil {
		return err
	}
	const size, sharedSize = int64(unsafe.Sizeof(bpfTransitEntry{})), int64(unsafe.Sizeof(bpfTransitAction{}))
	slots, most := int64(fl.maps.TransitCache.MaxEntries())/int64(len(tables)), int64(fl.maps.TransitActions.MaxEntries())/int64(len(tables))
	actions := make([]bpfTransitAction, most)
	for core, t := range tables {
		if t.Reached == 0 {
			continue
		}
		part := make([]bpfTransitEntry, t.Reached+1)
		if _, err := memory.ReadAt(bytesOf(part), int64(core)*slots*size); err != nil {
			return fmt.Errorf("read the map %s: %w", fl.maps.TransitCache, err)
		}
		if _, err := shared.ReadAt(bytesOf(actions), int64(core)*most*sharedSize); err != nil {
			return fmt.Errorf("read the map %s: %w", fl.maps.TransitActions, err)
		}
		for i := range part {
			s := &part[i]
			if s.Ethertype != 0 && int64(s.Action) < most && actions[s.Action].Serial == s.Serial {
				do(s, &actions[s.Action])
			}
		}
	}
	return nil
}

// transitTables are those of all cores.
func (tf *Traffic) transitTables() (tables []bpfTransitTable, err error) {
	if err := tf.maps.TransitTables.Lookup(uint32(0), &tables); err != nil {
		return nil, fmt.Errorf("read the tables of shortcuts: %w", err)
	}
	return tables, nil
}

// express counts the packets that hit a shortcut without a look at the stages.
func (tf *Traffic) fastPackets() (n uint64, err error) {
	tables, err := tf.transitTables()
	for _, t := range tables {
		n += t.Fast
	}
	return n, err
}

// epochs is EPOCHS of bpf/cache/transit_cache.h, after which the decision of a shortcut is taken again.
const epochs = 4

func (cg *Changes) epochNS() uint64 { return revalidateAfter(cg.prog.cfg.FDB) / epochs }

// TickEvery is how often Tick has to be called, 0: it need not be.
func (cg *Changes) TickEvery() time.Duration {
	if !cg.prog.cfg.Transit {
		return 0
	}
	return time.Duration(cg.epochNS())
}

// Tick advances the coarse clock for the transit programs, which read no clock, by the epochs that have passed.
func (cg *Changes) Tick() error {
	if !cg.prog.cfg.Transit {
		return nil
	}
	now, err := cg.prog.kernel.Clock.Monotonic()
	if err != nil {
		return err
	}
	passed := since(now, cg.beaten) / cg.epochNS()
	switch {
	case passed == 0:
		return nil
	case cg.beaten == 0: // the first of this process
		passed, cg.beaten = 1, now
	case passed > 2*epochs: // no decision is valid that long
		passed, cg.beaten = 2*epochs, now
	default:
		cg.beaten += passed * cg.epochNS()
	}
	return cg.addGlobal(bpfGlobalCounterGLOBAL_CLOCK, uint32(passed))
}

// changesStep is odd, so that 16 bits of the sum are new for as long as they can be, and
// far from what the data path may add at the same time.
const changesStep = 32771

// changed has the transit programs look at the generations. It comes after those.
func (cg *Changes) changed() error {
	return cg.addGlobal(bpfGlobalCounterGLOBAL_GENERATION, changesStep)
}

func (cg *Changes) globalCounter(which bpfGlobalCounter) (n uint32, err error) {
	if err := cg.maps.GlobalCounters.Lookup(uint32(which), &n); err != nil {
		return 0, fmt.Errorf("read pulse %d: %w", which, err)
	}
	return n, nil
}

func (cg *Changes) addGlobal(which bpfGlobalCounter, n uint32) error {
	cg.pulsing.Lock() // of two that add at once one would be lost, and a change with it
	defer cg.pulsing.Unlock()
	now, err := cg.globalCounter(which)
	if err != nil {
		return err
	}
	if err := cg.maps.GlobalCounters.Put(uint32(which), now+n); err != nil {
		return fmt.Errorf("write pulse %d: %w", which, err)
	}
	return nil
}
