package facts

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/doctor/fix"
)

// Difference is a fact that two hosts do not share, or a host at two times.
type Difference struct {
	Check string `json:"check"` // "offloads", "mtu", …
	Name  string `json:"name"`  // of the fact
	// Matters says that figures are known to depend on it.
	Matters bool  `json:"matters"`
	A       Value `json:"a"`
	B       Value `json:"b"`
}

// Value is a fact as it is at a place.
type Value struct {
	Place     string `json:"place,omitempty"`
	Interface string `json:"interface,omitempty"` // empty of the machine
	Text      string `json:"text"`
	Source    string `json:"source"` // where it was read, or the command that shows it

	set setter
}

// setter is the command that has a fact take a value, where there is one.
type setter func(value string) (fix.Command, bool)

// To is the change of v to the other value, where there is a command for that and for the way back.
func (v Value) To(other string) (fix.Fix, bool) {
	if v.set == nil {
		return fix.Fix{}, false
	}
	do, can := v.set(other)
	undo, back := v.set(v.Text)
	return fix.Fix{Interface: v.Interface, Do: do, Undo: undo}, can && back
}

// Pair is two interfaces that are compared.
type Pair struct{ A, B string }

// Compare lists what differs, of the machines first, in the order of the document. What one of them did not tell is
// no difference.
func Compare(a, b *Host, pairs []Pair) []Difference {
	return compare(a, b, pairs, func(fact) bool { return true })
}

func compare(a, b *Host, pairs []Pair, wanted func(fact) bool) []Difference {
	found := differences(a.Place, b.Place, ofMachine(a), ofMachine(b), wanted)
	for _, p := range pairs {
		ia, atA := a.Interface(p.A)
		ib, atB := b.Interface(p.B)
		if atA && atB {
			found = append(found, differences(a.Place, b.Place, ofInterface(ia), ofInterface(ib), wanted)...)
		}
	}
	return found
}

// Drift lists what differs from a host as it was, by the names of its interfaces. Where interrupts are is left out:
// irqbalance moves them.
func Drift(before, now *Host) []Difference {
	var pairs []Pair
	var found []Difference
	there := func(h *Host, name, text string) Value {
		return Value{Place: h.Place, Interface: name, Text: text, Source: "ip link show dev " + fix.Quote(name)}
	}
	for _, i := range before.Interfaces {
		if _, still := now.Interface(i.Name); still {
			pairs = append(pairs, Pair{i.Name, i.Name})
			continue
		}
		found = append(found, Difference{"interfaces", "interface " + i.Name, true, there(before, i.Name, "there"), there(now, i.Name, "missing")})
	}
	for _, i := range now.Interfaces {
		if _, was := before.Interface(i.Name); !was {
			found = append(found, Difference{"interfaces", "interface " + i.Name, true, there(before, i.Name, "missing"), there(now, i.Name, "there")})
		}
	}
	return append(found, compare(before, now, pairs, func(f fact) bool { return !f.moves })...)
}

// Peers pairs the interfaces by which two hosts see each other: those in one subnet, tunnels of one network, what is
// below them, and else those of one name.
func Peers(a, b *Host) []Pair {
	p := pairing{a: a, b: b}
	for i := range a.Interfaces {
		for j := range b.Interfaces {
			if meet(&a.Interfaces[i], &b.Interfaces[j]) {
				p.add(a.Interfaces[i].Name, b.Interfaces[j].Name)
			}
		}
	}
	for i := 0; i < len(p.pairs); i++ { // which grows
		ia, atA := a.Interface(p.pairs[i].A)
		ib, atB := b.Interface(p.pairs[i].B)
		if !atA || !atB {
			continue
		}
		p.add(ia.Lower, ib.Lower)
		if ia.Bond != nil && ib.Bond != nil {
			for k := range min(len(ia.Bond.Members), len(ib.Bond.Members)) {
				p.add(ia.Bond.Members[k], ib.Bond.Members[k])
			}
		}
	}
	for _, i := range a.Interfaces {
		if _, there := b.Interface(i.Name); there {
			p.add(i.Name, i.Name)
		}
	}
	return p.pairs
}

// meet says whether two interfaces are in one network.
func meet(a, b *Interface) bool {
	if a.VNI != 0 || b.VNI != 0 {
		return a.VNI == b.VNI && a.Kind == b.Kind
	}
	for _, p := range a.Addrs {
		for _, q := range b.Addrs {
			if Neighbours(p, q) {
				return true
			}
		}
	}
	return false
}

// Neighbours says whether two addresses with their prefix lengths are of two hosts in one subnet.
func Neighbours(p, q netip.Prefix) bool {
	for _, addr := range []netip.Addr{p.Addr(), q.Addr()} {
		if addr.IsLinkLocalUnicast() || addr.IsLoopback() {
			return false
		}
	}
	return p.Addr() != q.Addr() && !p.IsSingleIP() && p.Masked() == q.Masked()
}

type pairing struct {
	a, b  *Host
	pairs []Pair
}

// add pairs two interfaces that are in no pair yet.
func (p *pairing) add(a, b string) {
	_, atA := p.a.Interface(a)
	_, atB := p.b.Interface(b)
	if atA && atB && !slices.ContainsFunc(p.pairs, func(o Pair) bool { return o.A == a || o.B == b }) {
		p.pairs = append(p.pairs, Pair{a, b})
	}
}

// fact is one that can be compared; an empty value is not known.
type fact struct {
	check, name, value string
	source             string
	matters            bool
	moves              bool // by itself, as interrupts by irqbalance: no drift
	iface              string
	set                setter
}

// Checks are the concerns that differences can be of.
func Checks() []string {
	full := Interface{
		Features: map[string]Feature{"rx-gro": {}}, Ring: &Ring{}, Channels: &Channels{}, Pause: &Pause{}, Coalesce: &Coalesce{},
		Interrupts: &Interrupts{}, PCI: &PCI{}, Bond: &Bond{},
	}
	h := Host{Sysctls: map[string]string{"x": ""}}
	h.Machine.CPU.Mitigations = map[string]string{"x": ""}
	var checks []string
	for _, f := range append(ofMachine(&h), ofInterface(&full)...) {
		checks = append(checks, f.check)
	}
	slices.Sort(checks)
	return slices.Compact(checks)
}

func (f fact) at(place string) Value {
	return Value{Place: place, Interface: f.iface, Text: f.value, Source: f.source, set: f.set}
}

func differences(placeA, placeB string, a, b []fact, wanted func(fact) bool) (found []Difference) {
	type key struct{ check, name string }
	others := make(map[key]fact, len(b))
	for _, f := range b {
		others[key{f.check, f.name}] = f
	}
	for _, f := range a {
		other, known := others[key{f.check, f.name}]
		if known && wanted(f) && f.value != "" && other.value != "" && f.value != other.value {
			found = append(found, Difference{f.check, f.name, f.matters, f.at(placeA), other.at(placeB)})
		}
	}
	return found
}

// Texts of values.
func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func maybeOnOff(on *bool) string {
	if on == nil {
		return ""
	}
	return onOff(*on)
}

// count is a number, where 0 stands for not known.
func count[N cmp.Ordered](n N) string {
	var zero N
	if n == zero {
		return ""
	}
	return fmt.Sprint(n)
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
