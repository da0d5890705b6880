package policy

import (
	"net/netip"

	"github.com/selvage/selvage/internal/overlay"
)

// Evaluate says what the compiled policy decides. Where o.Place is none of the policy's
// places, its rule is -1 and the verdict Drop: that port has no policy yet.
func (p *Policy) Evaluate(o Query) Match {
	at, known := p.sets.byName[o.Place]
	if !known {
		return Match{Rule: -1, LogOnly: -1, Verdict: overlay.Drop}
	}
	c := lookup{p: p, best: decision{p.places[at].ruleFor, none},
		key: u128{0, uint64(serviceKey(o.Protocol, o.DstPort, o.Ported))<<32 | uint64(o.SrcPort)}}
	c.from = p.listed(0, o.Src, o.SrcMAC, o.SrcPlace, o.SrcSegment)
	c.to = p.listed(1, o.Dst, o.DstMAC, o.DstPlace, o.DstSegment)
	c.scopes = p.gather(nil, p.places[at].scopes[direction(o.Direction)])
	c.run()
	j := Match{Rule: int(c.best.rule), LogOnly: -1, Verdict: p.rules[c.best.rule].Verdict, Log: p.rules[c.best.rule].Log}
	if c.best.logOnly < c.best.rule {
		j.LogOnly = int(c.best.logOnly)
	}
	return j
}

// candidate is an item of a list, as it is read.
type candidate struct {
	set setID
	item
}

// listed are the sets that one side of a packet is in.
func (p *Policy) listed(side int, addr netip.Addr, mac overlay.MAC, place, segment string) []candidate {
	roots := p.compiled[headerTrees+3*side:]
	root, i := roots[1], 0
	if addr.Unmap().Is4() {
		root, i = roots[0], 3
	}
	out := p.gather(nil, p.compiled.find(root, addrOf(addr), i))
	out = p.gather(out, p.compiled.find(roots[2], u128{0, macOf(mac)}, 2))
	if n, known := p.sets.byName[place]; known {
		out = p.gather(out, p.places[n].sides[side])
	}
	return p.gather(out, p.segments[segment][side])
}

// gather appends the items of a list.
func (p *Policy) gather(out []candidate, list uint32) []candidate {
	at, count := list>>countBits, list&(1<<countBits-1)
	for i := range count {
		words := p.compiled[(at+i)*itemWords:]
		out = append(out, candidate{setID(words[0]), item{words[1], uint64(words[2]) | uint64(words[3])<<32}})
	}
	return out
}

// lookup looks for the first rule among those of all combinations.
type lookup struct {
	p                *Policy
	from, to, scopes []candidate
	key              u128 // of the service: its key, and the source port
	best             decision
}

func (c *lookup) run() {
	for _, f := range c.from {
		if f.first > c.best.rule {
			continue
		}
		for _, t := range c.to {
			if t.first > c.best.rule {
				continue
			}
			for _, s := range c.scopes {
				if s.first <= c.best.rule && f.partners&partner(t.set, s.set) != 0 && t.partners&partner(f.set, s.set) != 0 {
					c.ask(combination(f.set, t.set, s.set))
				}
			}
		}
	}
}

// ask lets the rules of a combination take part.
func (c *lookup) ask(key uint64) {
	slot := c.p.slot(key)
	if slot == nil || slot[3] > c.best.rule {
		return
	}
	says := c.p.decision(c.p.compiled.find(slot[2], c.key, 2))
	c.best = decision{min(c.best.rule, says.rule), min(c.best.logOnly, says.logOnly)}
}

// decision is what a value in a tree of services stands for.
func (p *Policy) decision(value uint32) decision {
	switch {
	case value&pairBit != 0:
		pair := p.compiled[p.compiled[headerPairs]*LineWords+2*(value&^pairBit):]
		return decision{pair[0], pair[1]}
	case value != 0:
		return decision{value - 1, none}
	}
	return decision{none, none}
}

// slot is where the table has the combination, or nil.
func (p *Policy) slot(key uint64) Compiled {
	table := p.compiled[p.compiled[headerTable]*LineWords:]
	for probe := range uint32(maxProbes) {
		line := table.at((uint32(key*hashFactor>>32) + probe) & p.compiled[headerMask])
		for i := 0; i < LineWords; i += slotWords {
			switch has := uint64(line[i]) | uint64(line[i+1])<<32; has {
			case key:
				return line[i:]
			case 0:
				return nil
			}
		}
	}
	return nil
}
