package datapath

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
)

// randomBase is what random policies have in common. Time passes in steps of 10 s, and
// every timeout is 5 s away from a multiple: so what a test takes itself does not matter.
var randomBase = overlay.Firewall{
	NonIP: overlay.Allow, Strict: true,
	Sizes: overlay.ConnectionSizes{Connections: 1024, HalfOpen: 1024},
	Timeouts: overlay.Timeouts{
		Opening: 15 * time.Second, Established: 75 * time.Second, HalfClosed: 45 * time.Second, TimeWait: 25 * time.Second,
		Closed: 15 * time.Second, UDP: 15 * time.Second, UDPReplied: 35 * time.Second, UDPStream: 45 * time.Second, ICMP: 25 * time.Second,
	},
}

// Policies and packets at random: the data path says what the reference says, with the flow cache and without it, and after changes of the policy.
func TestFirewallIsTheReference(t *testing.T) {
	t.Parallel()
	all := ways()
	for to, strict := range map[*way]bool{&all[0]: true, &all[len(all)-1]: false} {
		t.Run(fmt.Sprintf("strict %t, %s", strict, to.name), func(t *testing.T) {
			base := randomBase
			base.Strict, base.Default = strict, overlay.Allow
			h := newHolding(t, *to, base)
			r := newRandom(t)
			packets := 0
			repeat(25, func(n int) {
				first := r.firewall()
				list := append([]act{{what: "the policy", rules: &first}}, r.acts(40)...)
				for i := range list {
					if list[i].rules != nil {
						list[i].rules.Strict = strict
					}
				}
				packets += len(list)
				if got := h.run(t, list); got != "" {
					t.Fatalf("sequence %d: %s", n, h.shrink(t, list))
				}
			})
			t.Logf("%d packets, %d senders told", packets, h.notices)
			if h.notices < 20 {
				t.Error("too few to say anything")
			}
		})
	}
}

// holding holds two data paths, with the flow cache and without, against the reference.
type holding struct {
	on, off *world
	notices int // of rejected packets
}

func newHolding(t *testing.T, to way, base overlay.Firewall) *holding {
	t.Helper()
	return &holding{
		on:  firewallWorldBy(t, to, base),
		off: firewallWorldBy(t, to, base, func(c *Config, _ *fib.Tables) { c.FlowCache.Enabled = false }),
	}
}

// run offers a sequence and says what differs first, "" when nothing does.
func (h *holding) run(t *testing.T, list []act) string {
	t.Helper()
	h.on.forgetConnections(t)
	h.off.forgetConnections(t)
	ref := newReference(randomBase, firewallPlaces)
	for i, a := range list {
		switch {
		case a.rules != nil:
			h.enforce(t, a.rules)
			ref.change(*a.rules)
		case a.pass > 0:
			ref.now += a.pass
			h.on.age(t, a.pass)
			h.off.age(t, a.pass)
		default:
			want := ref.offer(a.frame, a.by)
			on, r := h.on.verdictFrom(t, a.from, a.frame)
			off, _ := h.off.verdictFrom(t, a.from, a.frame)
			if on == "rejected" && r.verdict == forwarded {
				h.on.wantNotice(t, a.from, a.frame, r)
				h.notices++
			}
			if on != want || off != want {
				return fmt.Sprintf("step %d, %s: %s, with the flow cache %s, without %s", i, a.what, orPasses(want), orPasses(on), orPasses(off))
			}
			if ref.refused {
				h.on.ageFlows(t, 11*time.Second)
				ref.refused = false
			}
			if differs := h.compare(t, ref); differs != "" {
				return fmt.Sprintf("step %d, %s: %s, %s", i, a.what, orPasses(want), differs)
			}
		}
	}
	return ""
}

// compare holds the tables of connections against the reference's. How many packets a
// connection has had is known at once only without the flow cache.
func (h *holding) compare(t *testing.T, ref *reference) string {
	t.Helper()
	want, wantPackets := ref.connections()
	on, _ := h.on.connections(t)
	off, offPackets := h.off.connections(t)
	switch {
	case !maps.Equal(on, want):
		return fmt.Sprintf("connections %v, want %v", on, want)
	case !maps.Equal(off, want):
		return fmt.Sprintf("connections without the flow cache %v, want %v", off, want)
	case !maps.Equal(offPackets, wantPackets):
		return fmt.Sprintf("packets %v, want %v", offPackets, wantPackets)
	}
	return ""
}

func orPasses(why string) string {
	if why == "" {
		return "passes"
	}
	return why
}

func (h *holding) enforce(t *testing.T, fw *overlay.Firewall) {
	t.Helper()
	h.on.enforce(t, *fw)
	h.off.enforce(t, *fw)
}

// shrink leaves out what is not needed for a difference, and prints the rest.
func (h *holding) shrink(t *testing.T, list []act) string {
	t.Helper()
	for size := len(list) / 2; size > 0; {
		smaller := false
		for at := 0; at+size <= len(list); {
			rest := slices.Concat(list[:at], list[at+size:])
			if len(rest) > 0 && rest[0].rules != nil && h.run(t, rest) != "" {
				list, smaller = rest, true
				continue
			}
			at += size
		}
		if !smaller || size > len(list) {
			size /= 2
		}
	}
	var b strings.Builder
	for i, a := range list {
		fmt.Fprintf(&b, "\n%2d %s", i, a.what)
		if a.rules != nil {
			b.WriteString(policyWords(*a.rules))
		}
	}
	return h.run(t, list) + b.String()
}

func policyWords(fw overlay.Firewall) string {
	var b strings.Builder
	fmt.Fprintf(&b, ": default %s %v, strict %t", fw.Default, fw.Defaults, fw.Strict)
	for _, g := range fw.Groups {
		fmt.Fprintf(&b, "\n     group %s %s", g.Name, memberWords(g.Members))
	}
	for _, r := range fw.Rules {
		fmt.Fprintf(&b, "\n     %s %s from %s to %s services %+v applied to %s", r.Verdict, r.Direction, memberWords(r.From), memberWords(r.To), r.Services, memberWords(r.AppliedTo))
	}
	return b.String()
}

func memberWords(list []overlay.Member) string {
	var words []string
	for _, m := range list {
		switch {
		case m.Prefix.IsValid():
			words = append(words, m.Prefix.String())
		case m.Range.First.IsValid():
			words = append(words, m.Range.First.String()+"-"+m.Range.Last.String())
		case m.MAC != nil:
			words = append(words, m.MAC.String())
		default:
			words = append(words, strings.Trim(fmt.Sprint(m.Segment, m.Port, m.Labels, m.Group), "map[]"))
		}
	}
	return "[" + strings.Join(words, " ") + "]"
}
