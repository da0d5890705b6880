package diagnose

import (
	"fmt"
	"strings"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Limits of what findings on the flow cache call remarkable.
const (
	studyFlows   = 1280 // of the NSX edge study: 20 × 64
	thrash       = 0.95 // hit rate below which the cache is too small
	cliff        = 2    // times the ns of the next smaller number of flows, at most tenfold
	claimedSaved = 0.75 // that the NSX edge study claims at best
)

// CacheVerdict answers what the flow cache saves.
func CacheVerdict(r result.Result) result.Verdict {
	e := cacheEvidence{gather(r, stats.CacheRows, stats.CacheOff)}
	v := result.Verdict{Findings: e.findings()}
	if why := e.refuse(); why != "" {
		v.Refused, v.Sentence = true, "No verdict: "+why+". Quiet the machine, or raise --rounds or --duration."
		return v
	}
	v.Sentence = e.sentence()
	return v
}

// cacheEvidence is a result of the cache experiment.
type cacheEvidence struct{ evidence }

func (e cacheEvidence) row(name string, l stats.Load, metric string) (result.Row, bool) {
	return stats.Find(e.rows, name, l.Case(), metric)
}

// time is the device's time per packet, or the whole time where the former was not
// measured.
func (e cacheEvidence) time(name string, l stats.Load) (result.Row, bool) {
	if row, ok := e.row(name, l, stats.DeviceNS); ok {
		return row, true
	}
	return e.row(name, l, stats.NSPerPacket)
}

// key is the case that the verdict stands on: the most routes, and of the flows those
// closest to the NSX edge study's from below, else the fewest.
func (e cacheEvidence) key() (stats.Load, bool) {
	var key stats.Load
	for _, l := range stats.Loads(e.Result) {
		if _, ok := e.row(stats.CacheOn, l, stats.ShareSaved); !ok {
			continue
		}
		if key.Flows == 0 || l.Routes > key.Routes || l.Flows <= studyFlows {
			key = l
		}
	}
	return key, key.Flows > 0
}

func (e cacheEvidence) refuse() string {
	key, ok := e.key()
	if !ok {
		return "no case was measured both with and without the cache"
	}
	return stats.RefuseRate(e.Result, key.Case(), stats.NSPerPacket, stats.CacheOff, stats.CacheOn)
}

func (e cacheEvidence) sentence() string {
	key, _ := e.key()
	saved, _ := e.row(stats.CacheOn, key, stats.ShareSaved)
	on, _ := e.time(stats.CacheOn, key)
	off, _ := e.time(stats.CacheOff, key)
	with := e.load(key)
	if !saved.Distinguishable {
		return fmt.Sprintf("Whether the flow cache saves time cannot be told with %s: %s ns per packet with it and %s without, saved %s [%.2f, %.2f].",
			with, stats.Figure(on.Median), stats.Figure(off.Median), share(saved.Median), saved.Lo, saved.Hi)
	}
	word := "saves"
	if saved.Median < 0 {
		word = "costs"
	}
	text := fmt.Sprintf("The flow cache %s %s of the device's time per packet [%.2f, %.2f] with %s: %s ns with it, %s without.",
		word, strings.TrimPrefix(share(saved.Median), "−"), saved.Lo, saved.Hi, with, stats.Figure(on.Median), stats.Figure(off.Median))
	most := key
	for _, l := range stats.Loads(e.Result) {
		if _, ok := e.row(stats.CacheOn, l, stats.ShareSaved); ok && l.Routes == key.Routes && l.Flows > most.Flows {
			most = l
		}
	}
	if most != key {
		row, _ := e.row(stats.CacheOn, most, stats.ShareSaved)
		text += fmt.Sprintf(" With %s it saves %s.", flows(most.Flows), share(row.Median))
	}
	return text + fmt.Sprintf(" The NSX edge study claims up to %.0f %%.", 100*claimedSaved)
}

func (e cacheEvidence) load(l stats.Load) string {
	if l.Routes == 0 {
		return flows(l.Flows)
	}
	return fmt.Sprintf("%s and %s routes", flows(l.Flows), stats.Figure(float64(l.Routes)))
}

func (e cacheEvidence) findings() []string {
	var out []string
	for _, one := range []func() []string{e.failed, e.stolen, e.busy, e.fewRounds, e.hits, e.steps, e.inVain, e.many, e.behind} {
		out = append(out, one()...)
	}
	return out
}

// hits says where the cache is too small.
func (e cacheEvidence) hits() []string {
	var words []string
	for _, l := range stats.Loads(e.Result) {
		if row, ok := e.row(stats.CacheOn, l, stats.HitRate); ok && row.Median < thrash {
			words = append(words, fmt.Sprintf("%s with %s", share(row.Median), e.load(l)))
		}
	}
	if len(words) == 0 {
		return nil
	}
	return []string{"Hits: the hit rate is only " + strings.Join(words, ", ") + ": entries are replaced before their flow's next packet. Make the cache larger than the number of active flows."}
}

// steps tells a slope from a cliff.
func (e cacheEvidence) steps() []string {
	loads := stats.Loads(e.Result)
	for i := 1; i < len(loads); i++ {
		a, okA := e.row(stats.CacheOn, loads[i-1], stats.NSPerPacket)
		b, okB := e.row(stats.CacheOn, loads[i], stats.NSPerPacket)
		if okA && okB && loads[i].Routes == loads[i-1].Routes && loads[i].Flows <= 10*loads[i-1].Flows && b.Median > cliff*a.Median {
			return []string{fmt.Sprintf("Cliff: from %s to %s the time per packet rises from %s to %s ns. A cache that fits degrades gradually: check its size and its evictions.",
				flows(loads[i-1].Flows), flows(loads[i].Flows), stats.Figure(a.Median), stats.Figure(b.Median))}
		}
	}
	return nil
}

// inVain says where the cache does not pay.
func (e cacheEvidence) inVain() []string {
	var words []string
	for _, l := range stats.Loads(e.Result) {
		if row, ok := e.row(stats.CacheOn, l, stats.ShareSaved); ok && row.Distinguishable && row.Median <= 0 {
			words = append(words, e.load(l))
		}
	}
	if len(words) == 0 {
		return nil
	}
	return []string{"Cost: the cache costs more than it saves with " + strings.Join(words, "; ") + ": the path behind it costs less than a look-up that misses the CPU's caches."}
}

// many sets the most flows beside the study's.
func (e cacheEvidence) many() []string {
	key, ok := e.key()
	if !ok {
		return nil
	}
	most := key
	for _, l := range stats.Loads(e.Result) {
		if _, ok := e.row(stats.CacheOn, l, stats.NSPerPacket); ok && l.Routes == key.Routes && l.Flows > most.Flows {
			most = l
		}
	}
	few, okFew := e.row(stats.CacheOn, key, stats.NSPerPacket)
	much, okMuch := e.row(stats.CacheOn, most, stats.NSPerPacket)
	if most == key || !okFew || !okMuch || much.Median == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Flows: with %s the path keeps %s of the rate that it has with %s (%s against %s ns per packet, generator and sink included).",
		flows(most.Flows), share(few.Median/much.Median), flows(key.Flows), stats.Figure(much.Median), stats.Figure(few.Median))}
}

// behind compares what routes behind the cache cost with it and without.
func (e cacheEvidence) behind() []string {
	key, ok := e.key()
	bare := stats.Load{Flows: key.Flows}
	on, okOn := e.time(stats.CacheOn, key)
	off, okOff := e.time(stats.CacheOff, key)
	bareOn, okBareOn := e.time(stats.CacheOn, bare)
	bareOff, okBareOff := e.time(stats.CacheOff, bare)
	if !ok || key.Routes == 0 || !okOn || !okOff || !okBareOn || !okBareOff {
		return nil
	}
	return []string{fmt.Sprintf("Routes: %s of them add %s ns to a packet without the cache and %s with it (%s).",
		stats.Figure(float64(key.Routes)), signed(off.Median-bareOff.Median), signed(on.Median-bareOn.Median), flows(key.Flows))}
}

func signed(ns float64) string {
	if ns < 0 {
		return "−" + stats.Figure(-ns)
	}
	return stats.Figure(ns)
}

// CacheDUT is the target that a verdict on r is about, "" for none.
func CacheDUT(r result.Result) string { return gather(r, stats.CacheRows, stats.CacheOff).dut }
