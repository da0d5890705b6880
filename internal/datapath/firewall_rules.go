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
func (fw *Firewall) restoreRules() error {
	fw.rules, fw.names = map[uint64]uint32{}, map[uint32]RuleName{}
	entries, err := fw.readRules(fw.maps.Rules.MaxEntries())
	for i, e := range entries {
		if i != 0 && e.Name != 0 {
			fw.rules[e.Name] = uint32(i)
			fw.last = uint32(i)
		}
	}
	return err
}

// readRules reads the counters of all numbers below n.
func (fw *Firewall) readRules(n uint32) ([]bpfRuleCounters, error) {
	entries := make([]bpfRuleCounters, n)
	return entries, readArray(fw.maps.Rules, entries)
}

// numbered are the numbers that the image of t is made with, and the rules that had
// none, by number. A rule keeps its number as long as there is one of its name.
func (fw *Firewall) numbered(t fib.Tables) (n policy.Numbers, fresh map[uint32]RuleName, err error) {
	n.Vports, n.Segments = map[string]uint16{}, map[string]uint16{}
	for _, port := range t.Ports {
		if !port.Uplink {
			n.Vports[port.Name] = uint16(fw.numbers.names.portIDs[port.Name])
		}
	}
	for name, id := range fw.numbers.names.segIDs {
		n.Segments[name] = uint16(id)
	}
	if t.Firewall == fw.policy {
		n.Rules = fw.inForce.Rules
		return n, nil, nil
	}
	n.Rules, fresh, err = fw.numberRules(t.Firewall.Rules())
	return n, fresh, err
}

func (fw *Firewall) numberRules(rules []policy.Rule) (numbers []uint32, fresh map[uint32]RuleName, err error) {
	if len(rules) >= int(fw.maps.Rules.MaxEntries()) {
		return nil, nil, fmt.Errorf("firewall: %d rules with the defaults, at most %d", len(rules), fw.maps.Rules.MaxEntries()-1)
	}
	numbers, fresh = make([]uint32, len(rules)), map[uint32]RuleName{}
	taken := make([]bool, fw.maps.Rules.MaxEntries())
	for _, number := range fw.rules {
		taken[number] = true
	}
	owners := make(map[uint32]RuleName, len(rules))
	for i, r := range rules {
		name := RuleName{r.Section, r.Name}
		number, known := fw.rules[name.hash()]
		if other, double := owners[number]; known && double {
			return nil, fresh, fmt.Errorf("firewall: rules %s/%s and %s/%s cannot be told apart: rename one", other.Section, other.Name, r.Section, r.Name)
		}
		if !known {
			if number, err = fw.freeNumber(taken); err != nil {
				return nil, fresh, err
			}
			taken[number], fresh[number] = true, name
			fw.rules[name.hash()] = number
		}
		numbers[i], owners[number] = number, name
		fw.names[number] = name
	}
	return numbers, fresh, nil
}

// freeNumber goes round, so that the number of a rule that is gone, which connections
// may still have, is given again as late as can be. While the former policy is asked its
// numbers are not free.
func (fw *Firewall) freeNumber(taken []bool) (uint32, error) {
	for range taken {
		fw.last++
		if int(fw.last) >= len(taken) {
			fw.last = 1
		}
		if !taken[fw.last] {
			return fw.last, nil
		}
	}
	return 0, fmt.Errorf("firewall: no number for another rule: the former policy and the new one have more than %d together; "+
		"go by way of one with fewer", len(taken)-1)
}

// putRules starts the counters of rules at zero.
func (fw *Firewall) putRules(fresh map[uint32]RuleName) error {
	entries := make(map[uint32]bpfRuleCounters, len(fresh))
	for number, name := range fresh {
		entries[number] = bpfRuleCounters{Name: name.hash()}
	}
	return putBatch(fw.maps.Rules, entries, ebpf.UpdateAny)
}

// freeRules takes the numbers from rules that are gone.
func (fw *Firewall) freeRules() error {
	if len(fw.rules) == len(fw.inForce.Rules) {
		return nil
	}
	live := make(map[uint32]bool, len(fw.inForce.Rules))
	for _, number := range fw.inForce.Rules {
		live[number] = true
	}
	gone := map[uint32]bpfRuleCounters{}
	for name, number := range fw.rules {
		if !live[number] {
			gone[number] = bpfRuleCounters{}
			delete(fw.rules, name)
		}
	}
	return putBatch(fw.maps.Rules, gone, ebpf.UpdateAny)
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
func (fw *Firewall) ruleName(number uint32) RuleName { return fw.names[number] }

// RuleCounters are what one rule decided about. Packets and bytes of connections come
// with a delay of up to 10 s.
type RuleCounters struct {
	RuleName
	Connections, Packets, Bytes uint64
	Hit                         bool   // it did something since its counters began
	IdleNS                      uint64 // since it did
}

// Rules reads the counters of the policy's rules, in its order, the defaults last.
func (fw *Firewall) Rules() ([]RuleCounters, error) {
	if fw.policy == nil {
		return nil, nil
	}
	now, err := fw.prog.kernel.Clock.Monotonic()
	if err != nil {
		return nil, err
	}
	entries, err := fw.readRules(slices.Max(fw.inForce.Rules) + 1) // the edge's default is always there
	if err != nil {
		return nil, err
	}
	list := make([]RuleCounters, len(fw.inForce.Rules))
	for i, number := range fw.inForce.Rules {
		e := entries[number]
		list[i] = RuleCounters{
			RuleName: fw.ruleName(number), Connections: e.Connections, Packets: e.Packets, Bytes: e.Bytes, Hit: e.SeenNs != 0,
		}
		if e.SeenNs != 0 {
			list[i].IdleNS = since(now, e.SeenNs)
		}
	}
	return list, nil
}

// Policed reports whether a policy stands before the ports.
func (fw *Firewall) Policed() bool { return fw.policy != nil }

// anyPoliced reports whether a port has a firewall in the data path now.
func (fw *Firewall) anyPoliced() bool {
	return slices.ContainsFunc(fw.numbers.givenVports(), func(e bpfVport) bool { return e.Flags&bpfVportFlagsVPORT_FIREWALL != 0 })
}

// guard marks a port for the firewall. Programs that were loaded without one keep a
// port that they had open until they are replaced.
func (fw *Firewall) guard(id uint32, vport *bpfVport, p *plan) {
	var now bpfVport
	_, attached := fw.links.links[hook{rolePort, int(vport.Ifindex)}]
	if err := fw.numbers.maps.Vports.Lookup(id, &now); err == nil && now.Flags&bpfVportFlagsVPORT_FIREWALL == 0 && fw.strangers && attached {
		p.unpoliced[id] = *vport
		return
	}
	vport.Flags |= bpfVportFlagsVPORT_FIREWALL
}

// takeOver attaches the programs, and has them find the connections that those before
// them knew.
func (d *Datapath) takeOver(p *plan) (unattached, err error) {
	err = d.numbers.beside(func() error { // it may take seconds
		carried, err := d.carrier.carry()
		if err != nil {
			return err
		}
		unattached = d.Links.attach(p)
		return errors.Join(carried.finish(d.carrier), d.Pins.removeOlder())
	})
	if err != nil {
		return unattached, err
	}
	d.Firewall.strangers = false
	for id, vport := range p.unpoliced {
		vport.Flags |= bpfVportFlagsVPORT_FIREWALL
		if err := d.Ports.putVport(id, vport); err != nil {
			return unattached, fmt.Errorf("firewall of port %s: %w", d.numbers.names.ports[id], err)
		}
	}
	if len(p.unpoliced) == 0 {
		return unattached, nil
	}
	return unattached, d.Changes.invalidateAll()
}

// touchAll plans new decisions for all flows.
func (p *plan) touchAll(nu *numbers) {
	for id := range nu.names.segments {
		p.touched[id] = true
	}
}

// invalidateAll has them taken at once.
func (cg *Changes) invalidateAll() error {
	var errs []error
	for id := range cg.numbers.names.segments {
		errs = append(errs, cg.invalidate(id))
	}
	return errors.Join(errs...)
}
