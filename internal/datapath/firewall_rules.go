package datapath

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/policy"
)

// RuleName tells rules apart: a default has the section policy.DefaultSection.
type RuleName struct{ Section, Name string }

// hash is by which the rule's number is found again; never 0, which is a free number.
func (r RuleName) hash() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(r.Section))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(r.Name)) // never fails
	return max(h.Sum64(), 1)
}

// restoreRules reads which numbers a former process gave to rules.
func (d *Datapath) restoreRules() error {
	d.fw.rules, d.fw.names = map[uint64]uint32{}, map[uint32]RuleName{}
	entries, err := d.readRules(d.objs.Rules.MaxEntries())
	for i, e := range entries {
		if i != 0 && e.Name != 0 {
			d.fw.rules[e.Name] = uint32(i)
			d.fw.last = uint32(i)
		}
	}
	return err
}

// readRules reads the counters of all numbers below n.
func (d *Datapath) readRules(n uint32) ([]bpfRuleCounters, error) {
	entries := make([]bpfRuleCounters, n)
	return entries, readArray(d.objs.Rules, entries)
}

// numbered are the numbers that the image of t is made with, and the rules that had
// none, by number. A rule keeps its number as long as there is one of its name.
func (d *Datapath) numbered(t fib.Tables) (n policy.Numbers, fresh map[uint32]RuleName, err error) {
	n.Vports, n.Segments = map[string]uint16{}, map[string]uint16{}
	for _, port := range t.Ports {
		if !port.Uplink {
			n.Vports[port.Name] = uint16(d.names.portIDs[port.Name])
		}
	}
	for name, id := range d.names.segIDs {
		n.Segments[name] = uint16(id)
	}
	if t.Firewall == d.fw.policy {
		n.Rules = d.fw.numbers.Rules
		return n, nil, nil
	}
	n.Rules, fresh, err = d.numberRules(t.Firewall.Rules())
	return n, fresh, err
}

func (d *Datapath) numberRules(rules []policy.Rule) (numbers []uint32, fresh map[uint32]RuleName, err error) {
	if len(rules) >= int(d.objs.Rules.MaxEntries()) {
		return nil, nil, fmt.Errorf("firewall: %d rules with the defaults, at most %d", len(rules), d.objs.Rules.MaxEntries()-1)
	}
	numbers, fresh = make([]uint32, len(rules)), map[uint32]RuleName{}
	taken := make([]bool, d.objs.Rules.MaxEntries())
	for _, number := range d.fw.rules {
		taken[number] = true
	}
	owners := make(map[uint32]RuleName, len(rules))
	for i, r := range rules {
		name := RuleName{r.Section, r.Name}
		number, known := d.fw.rules[name.hash()]
		if other, double := owners[number]; known && double {
			return nil, fresh, fmt.Errorf("firewall: rules %s/%s and %s/%s cannot be told apart: rename one", other.Section, other.Name, r.Section, r.Name)
		}
		if !known {
			if number, err = d.freeNumber(taken); err != nil {
				return nil, fresh, err
			}
			taken[number], fresh[number] = true, name
			d.fw.rules[name.hash()] = number
		}
		numbers[i], owners[number] = number, name
		d.fw.names[number] = name
	}
	return numbers, fresh, nil
}

// freeNumber goes round, so that the number of a rule that is gone, which connections
// may still have, is given again as late as can be. While the former policy is asked its
// numbers are not free.
func (d *Datapath) freeNumber(taken []bool) (uint32, error) {
	for range taken {
		d.fw.last++
		if int(d.fw.last) >= len(taken) {
			d.fw.last = 1
		}
		if !taken[d.fw.last] {
			return d.fw.last, nil
		}
	}
	return 0, fmt.Errorf("firewall: no number for another rule: the former policy and the new one have more than %d together; "+
		"go by way of one with fewer", len(taken)-1)
}

// putRules starts the counters of rules at zero.
func (d *Datapath) putRules(fresh map[uint32]RuleName) error {
	entries := make(map[uint32]bpfRuleCounters, len(fresh))
	for number, name := range fresh {
		entries[number] = bpfRuleCounters{Name: name.hash()}
	}
	return putBatch(d.objs.Rules, entries, ebpf.UpdateAny)
}

// freeRules takes the numbers from rules that are gone.
func (d *Datapath) freeRules() error {
	if len(d.fw.rules) == len(d.fw.numbers.Rules) {
		return nil
	}
	live := make(map[uint32]bool, len(d.fw.numbers.Rules))
	for _, number := range d.fw.numbers.Rules {
		live[number] = true
	}
	gone := map[uint32]bpfRuleCounters{}
	for name, number := range d.fw.rules {
		if !live[number] {
			gone[number] = bpfRuleCounters{}
			delete(d.fw.rules, name)
		}
	}
	return putBatch(d.objs.Rules, gone, ebpf.UpdateAny)
}

// putBatch writes many entries with few system calls.
func putBatch[K comparable, V any](m kernel.Map, entries map[K]V, flags ebpf.MapUpdateFlags) error {
	keys, values := make([]K, 0, len(entries)), make([]V, 0, len(entries))
	for _, k := range keysOf(entries) {
		keys, values = append(keys, k), append(values, entries[k])
	}
	for len(keys) > 0 {
		n := min(len(keys), batch)
		_, err := m.BatchUpdate(keys[:n], values[:n], &ebpf.BatchOptions{ElemFlags: uint64(flags)})
		if err != nil {
			return fmt.Errorf("write the map %s: %w", m, err)
		}
		keys, values = keys[n:], values[n:]
	}
	return nil
}

// ruleName is the name of the rule with the number, as far as it is known.
func (d *Datapath) ruleName(number uint32) RuleName { return d.fw.names[number] }

// RuleCounters are what one rule decided about. Packets and bytes of connections come
// with a delay of up to 10 s.
type RuleCounters struct {
	RuleName
	Connections, Packets, Bytes uint64
	Hit                         bool   // it did something since its counters began
	IdleNS                      uint64 // since it did
}

// Rules reads the counters of the policy's rules, in its order, the defaults last.
func (d *Datapath) Rules() ([]RuleCounters, error) {
	if d.fw.policy == nil {
		return nil, nil
	}
	now, err := d.kernel.Clock.Monotonic()
	if err != nil {
		return nil, err
	}
	entries, err := d.readRules(slices.Max(d.fw.numbers.Rules) + 1) // the edge's default is always there
	if err != nil {
		return nil, err
	}
	list := make([]RuleCounters, len(d.fw.numbers.Rules))
	for i, number := range d.fw.numbers.Rules {
		e := entries[number]
		list[i] = RuleCounters{
			RuleName: d.ruleName(number), Connections: e.Connections, Packets: e.Packets, Bytes: e.Bytes, Hit: e.SeenNs != 0,
		}
		if e.SeenNs != 0 {
			list[i].IdleNS = since(now, e.SeenNs)
		}
	}
	return list, nil
}

// Policed reports whether a policy stands before the ports.
func (d *Datapath) Policed() bool { return d.fw.policy != nil }

// anyPoliced reports whether a port has a firewall in the data path now.
func (d *Datapath) anyPoliced() bool {
	return slices.ContainsFunc(d.vports, func(e bpfVport) bool { return e.Flags&bpfVportFlagsVPORT_FIREWALL != 0 })
}

// firewall marks a port for the firewall. Programs that were loaded without one keep a
// port that they had open until they are replaced.
func (d *Datapath) firewall(id uint32, vport *bpfVport, p *plan) {
	var now bpfVport
	_, attached := d.links[hook{rolePort, int(vport.Ifindex)}]
	if err := d.objs.Vports.Lookup(id, &now); err == nil && now.Flags&bpfVportFlagsVPORT_FIREWALL == 0 && d.fw.strangers && attached {
		p.unpoliced[id] = *vport
		return
	}
	vport.Flags |= bpfVportFlagsVPORT_FIREWALL
}

// takeOver attaches the programs, and has them find the connections that those before
// them knew.
func (d *Datapath) takeOver(p *plan) (unattached, err error) {
	carried, err := d.carry()
	if err != nil {
		return nil, err
	}
	unattached = d.attach(p)
	if err := errors.Join(carried.finish(d), d.removeOlder()); err != nil {
		return unattached, err
	}
	d.fw.strangers = false
	for id, vport := range p.unpoliced {
		vport.Flags |= bpfVportFlagsVPORT_FIREWALL
		if err := d.putVport(id, vport); err != nil {
			return unattached, fmt.Errorf("firewall of port %s: %w", d.names.ports[id], err)
		}
	}
	if len(p.unpoliced) == 0 {
		return unattached, nil
	}
	return unattached, d.invalidateAll()
}

// touchAll plans new decisions for all flows.
func (p *plan) touchAll(d *Datapath) {
	for id := range d.names.segments {
		p.touched[id] = true
	}
}

// invalidateAll has them taken at once.
func (d *Datapath) invalidateAll() error {
	var errs []error
	for id := range d.names.segments {
		errs = append(errs, d.invalidate(id))
	}
	return errors.Join(errs...)
}
