package datapath

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
)

const (
	// maxRules is MAX_RULES of bpf/abi/conntrack.h.
	maxRules = 131072
	// maxFragments is how many datagrams are remembered until their last fragment came.
	maxFragments = 16384
)

// Firewall is what of the firewall is in force.
type Firewall struct {
	prog    *programs
	maps    firewallMaps
	numbers *numbers
	links   *Links
	limits  *Limits
	// policy is nil before the first Apply, and where ports have none. inForce is what its image was
	// made with.
	policy  *policy.Policy
	inForce policy.Numbers
	lines   uint32 // of the image
	// rules are the numbers by name, and names the rules by number: those that are gone
	// too, until the number is another's.
	rules map[uint64]uint32
	names map[uint32]RuleName
	last  uint32 // number given last
	// strangers: the attached programs may be loaded for other connection tables.
	strangers bool
	// stale: decisions were taken under another policy than the one in force.
	stale       bool
	logs        ring[bpfLogLine]
	connections conntrackTable[bpfCtEntry, bpfCtGcStats]
}

func (fw *Firewall) close() error { return errors.Join(fw.logs.close(), fw.connections.close()) }

// configureFirewall sizes the tables and sets what the programs have to know of fw.
func configureFirewall(spec *ebpf.CollectionSpec, fw *overlay.Firewall) error {
	if fw == nil {
		return nil // tables of one entry, as in bpf/abi/maps.h
	}
	for name, size := range map[string]uint32{
		bpfMapCtEstablished: fw.Sizes.Connections, bpfMapCtHalfOpen: fw.Sizes.HalfOpen,
		bpfMapCtClosed: 2 * fw.Sizes.HalfOpen, bpfMapFragments: maxFragments, bpfMapRules: maxRules,
	} {
		if size == 0 {
			return fmt.Errorf("firewall: table %s without entries", name)
		}
		spec.Maps[name].MaxEntries = size
	}
	timeouts, err := timeoutsNS(fw.Timeouts)
	if err != nil {
		return fmt.Errorf("firewall: %w", err)
	}
	for name, value := range map[string]any{
		bpfVarWithFirewall: true, bpfVarStrict: fw.Strict, bpfVarNonIpDropped: fw.NonIP == overlay.Drop, bpfVarCtTimeouts: timeouts,
		bpfVarLogRate: fw.LogRate,
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// putPolicy has the programs ask the policy of t, before a port is told to. It plans
// new decisions for all flows where an old one may not stand.
func (fw *Firewall) putPolicy(t fib.Tables, p *plan) error {
	p.policed = t.Firewall != nil
	err := fw.choosePolicy(t)
	if fw.stale {
		p.touchAll(fw.numbers)
	}
	return err
}

func (fw *Firewall) choosePolicy(t fib.Tables) error {
	if t.Firewall == nil {
		fw.stale = fw.stale || fw.policy != nil || fw.anyPoliced()
		return nil
	}
	if fw.prog.cfg.Firewall == nil {
		return errors.New("there is a policy, but the programs were loaded without a firewall: open the data path with one")
	}
	next, fresh, err := fw.numbered(t)
	if err == nil {
		err = fw.numbers.beside(func() error { return fw.force(t.Firewall, next, fresh) }) // an image of 100,000 rules takes its time
	}
	if err != nil { // they have no counters yet
		for _, name := range fresh {
			delete(fw.rules, name.hash())
		}
	}
	return err
}

// force puts a policy into force that is not.
func (fw *Firewall) force(pol *policy.Policy, next policy.Numbers, fresh map[uint32]RuleName) error {
	same := fw.policy == pol && slices.Equal(fw.inForce.Rules, next.Rules) && maps.Equal(fw.inForce.Segments, next.Segments)
	if same && maps.Equal(fw.inForce.Vports, next.Vports) {
		return nil
	}
	if err := fw.putRules(fresh); err != nil {
		return err
	}
	// Ports that came or went change nothing for the connections of others.
	swapped, err := fw.swapPolicy(pol, &next, same)
	if err != nil {
		return err
	}
	fw.policy, fw.inForce = pol, next
	fw.stale = fw.stale || swapped && !same
	return nil
}

// swapPolicy makes the image and puts it in the place of the former at once, unless
// that is the same, as after a restart. A policy that is the same but for the ports that
// exist keeps its number.
func (fw *Firewall) swapPolicy(pol *policy.Policy, n *policy.Numbers, samePolicy bool) (swapped bool, err error) {
	stamp, err := fw.prog.policyStamp()
	if err != nil {
		return false, err
	}
	n.Policy = uint32(stamp.Connections)
	compiled, err := pol.Compiled(*n)
	if err != nil {
		return false, fmt.Errorf("policy of the firewall: %w", err)
	}
	if !samePolicy {
		if stamp.Name == compiledSum(compiled) && fw.prog.hasPolicy(policyFirewall) {
			fw.lines = linesOf(compiled)
			return false, nil
		}
		n.Policy++
		if compiled, err = pol.Compiled(*n); err != nil {
			return false, fmt.Errorf("policy of the firewall: %w", err)
		}
	}
	// Who ends between these steps leaves no hash of an image that is not in force.
	stamp.Name, stamp.Connections = 0, uint64(n.Policy)
	if err := fw.prog.stampPolicy(stamp); err != nil {
		return false, err
	}
	if err := fw.prog.loadCompiled(policyFirewall, compiled); err != nil {
		return false, err
	}
	fw.lines = linesOf(compiled)
	stamp.Name = compiledSum(compiled)
	return true, fw.prog.stampPolicy(stamp)
}

// policyStamp is what rule 0, which is none, tells of what is loaded: as name a hash of the firewall's image, as connections
// its number, and as packets a hash of the image of egress. Reading the images back would take CAP_SYS_ADMIN: the
// map policy tells their numbers only.
func (pr *programs) policyStamp() (stamp bpfRuleCounters, err error) {
	if err := pr.objs.Rules.Lookup(uint32(0), &stamp); err != nil {
		return stamp, fmt.Errorf("read the policy's number: %w", err)
	}
	return stamp, nil
}

func (pr *programs) stampPolicy(stamp bpfRuleCounters) error {
	if err := pr.objs.Rules.Put(uint32(0), stamp); err != nil {
		return fmt.Errorf("write the policy's number: %w", err)
	}
	return nil
}

// hasPolicy reports whether the programs find an image.
func (pr *programs) hasPolicy(which uint32) bool {
	var id ebpf.MapID
	return pr.objs.Policy.Lookup(which, &id) == nil
}

func linesOf(compiled policy.Compiled) uint32 { return uint32(len(compiled) / policy.LineWords) }

func compiledBytes(compiled policy.Compiled) []byte {
	return bytesOf(compiled)
}

// compiledSum tells images apart; never 0.
func compiledSum(compiled policy.Compiled) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(compiledBytes(compiled)) // never fails
	return h.Sum64() | 1
}

// loadCompiled writes a map of its own and swaps it in. When it returns no program asks
// the former policy any more: the kernel waits for those that run.
func (pr *programs) loadCompiled(which uint32, compiled policy.Compiled) error {
	m, err := newPolicyMap(pr.kernel.Loader, compiled)
	if err != nil {
		return err
	}
	defer m.Close() // the map policy keeps it
	if err := pr.objs.Policy.Put(which, m); err != nil {
		return fmt.Errorf("put policy %d into force: %w", which, err)
	}
	return nil
}

// newPolicyMap makes a map that holds the image.
func newPolicyMap(loader kernel.Loader, compiled policy.Compiled) (kernel.Map, error) {
	if len(compiled) == 0 || len(compiled)%policy.LineWords != 0 {
		return nil, fmt.Errorf("a policy's image of %d words is not whole lines", len(compiled))
	}
	m, err := loader.NewMap(&ebpf.MapSpec{
		Name: "policy_lines", Type: ebpf.Array, KeySize: 4, ValueSize: 4 * policy.LineWords,
		MaxEntries: linesOf(compiled), Flags: unix.BPF_F_INNER_MAP | unix.BPF_F_MMAPABLE,
	})
	if err != nil {
		return nil, fmt.Errorf("make room for a policy of %d bytes: %w", 4*len(compiled), err)
	}
	memory, err := m.Memory()
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if _, err := memory.WriteAt(compiledBytes(compiled), 0); err != nil {
		return nil, errors.Join(fmt.Errorf("write the policy: %w", err), m.Close())
	}
	return m, nil
}

// prunePolicy forgets what nothing asks for any more: rules that are gone, and with the
// last policed port the policy.
func (fw *Firewall) prunePolicy(p *plan) error {
	if p.policed {
		return fw.freeRules()
	}
	fw.policy, fw.inForce, fw.lines = nil, policy.Numbers{}, 0
	err := fw.prog.objs.Policy.Delete(policyFirewall)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("remove the policy: %w", err)
	}
	return fw.freeRules()
}
