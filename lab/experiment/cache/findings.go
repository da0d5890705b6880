package cache

import (
	"fmt"
	"math"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/transit"
)

// Limits of what findings on the flow cache call remarkable.
const (
	studyFlows   = 1280 // of the NSX edge study: 20 × 64
	thrash       = 0.95 // hit rate below which the cache is too small
	cliff        = 2    // times the ns of the next smaller number of flows, at most tenfold
	claimedSaved = 0.75 // that the NSX edge study claims at best
)

// verdict answers what the flow cache saves.
func verdict(r result.Result) result.Verdict {
	e := evidence{diagnose.Gather(r, summarise, CacheOff)}
	v := result.Verdict{Findings: e.findings()}
	if why := e.refuse(); why != "" {
		v.Refuse(why, diagnose.Quieter+transit.Noisy)
		return v
	}
	v.Headline, v.Explanation = e.answer()
	return v
}

// evidence is a result of the cache experiment.
type evidence struct{ diagnose.Evidence }

func (e evidence) row(name string, l Load, metric string) (result.Row, bool) {
	return stats.Find(e.Rows, name, l.Case(), metric)
}

// time is the device's time per packet, or the whole time where the former was not
// measured.
func (e evidence) time(name string, l Load) (result.Row, bool) {
	if row, ok := e.row(name, l, transit.DeviceNS); ok {
		return row, true
	}
	return e.row(name, l, transit.NSPerPacket)
}

// key is the case that the verdict stands on: the most routes, and of the flows those
// closest to the NSX edge study's from below, else the fewest.
func (e evidence) key() (Load, bool) {
	var key Load
	for _, l := range Loads(e.Result) {
		if _, ok := e.row(CacheOn, l, ShareSaved); !ok {
			continue
		}
		if key.Flows == 0 || l.Routes > key.Routes || l.Flows <= studyFlows {
			key = l
		}
	}
	return key, key.Flows > 0
}

func (e evidence) refuse() string {
	key, ok := e.key()
	if !ok {
		return "no case was measured both with and without the cache"
	}
	return transit.RefuseRate(e.Result, key.Case(), transit.NSPerPacket, CacheOff, CacheOn)
}

// answer is the verdict when there is one.
func (e evidence) answer() (headline, explanation string) {
	key, _ := e.key()
	saved, _ := e.row(CacheOn, key, ShareSaved)
	on, _ := e.time(CacheOn, key)
	off, _ := e.time(CacheOff, key)
	with := e.load(key)
	if !saved.Distinguishable {
		return fmt.Sprintf("Whether the flow cache saves time cannot be told with %s: %s ns per packet with it and %s without, saved %s [%.2f, %.2f].",
			with, stats.Figure(on.Median), stats.Figure(off.Median), stats.Share(saved.Median), saved.Lo, saved.Hi), ""
	}
	word := "saves"
	if saved.Median < 0 {
		word = "costs"
	}
	headline = fmt.Sprintf("The flow cache %s %s of the device's time per packet [%.2f, %.2f] with %s: %s ns with it, %s without.",
		word, stats.Share(math.Abs(saved.Median)), saved.Lo, saved.Hi, with, stats.Figure(on.Median), stats.Figure(off.Median))
	most := key
	for _, l := range Loads(e.Result) {
		if _, ok := e.row(CacheOn, l, ShareSaved); ok && l.Routes == key.Routes && l.Flows > most.Flows {
			most = l
		}
	}
	if most != key {
		row, _ := e.row(CacheOn, most, ShareSaved)
		explanation = fmt.Sprintf("With %s it saves %s. ", diagnose.Flows(most.Flows), stats.Share(row.Median))
	}
	return headline, explanation + fmt.Sprintf("The NSX edge study claims up to %.0f %%.", 100*claimedSaved)
}

func (e evidence) load(l Load) string {
	if l.Routes == 0 {
		return diagnose.Flows(l.Flows)
	}
	return fmt.Sprintf("%s and %s routes", diagnose.Flows(l.Flows), stats.Figure(float64(l.Routes)))
}

func (e evidence) findings() []result.Finding {
	return diagnose.Collect(e.Failed, e.Stolen, e.Busy, e.FewRounds, e.hits, e.steps, e.inVain, e.many, e.behind)
}

// hits says where the cache is too small.
func (e evidence) hits() []result.Finding {
	var words []string
	for _, l := range Loads(e.Result) {
		if row, ok := e.row(CacheOn, l, HitRate); ok && row.Median < thrash {
			words = append(words, fmt.Sprintf("%s with %s", stats.Share(row.Median), e.load(l)))
		}
	}
	if len(words) == 0 {
		return nil
	}
	return []result.Finding{{Topic: "Hits", Text: "the hit rate is only " + strings.Join(words, ", ") + ": entries are replaced before their flow's next packet. Make the cache larger than the number of active flows."}}
}

// steps tells a slope from a cliff.
func (e evidence) steps() []result.Finding {
	loads := Loads(e.Result)
	for i := 1; i < len(loads); i++ {
		a, okA := e.row(CacheOn, loads[i-1], transit.NSPerPacket)
		b, okB := e.row(CacheOn, loads[i], transit.NSPerPacket)
		if okA && okB && loads[i].Routes == loads[i-1].Routes && loads[i].Flows <= 10*loads[i-1].Flows && b.Median > cliff*a.Median {
			return []result.Finding{{Topic: "Cliff", Text: fmt.Sprintf("from %s to %s the time per packet rises from %s to %s ns. A cache that fits degrades gradually: check its size and its evictions.",
				diagnose.Flows(loads[i-1].Flows), diagnose.Flows(loads[i].Flows), stats.Figure(a.Median), stats.Figure(b.Median))}}
		}
	}
	return nil
}

// inVain says where the cache does not pay.
func (e evidence) inVain() []result.Finding {
	var words []string
	for _, l := range Loads(e.Result) {
		if row, ok := e.row(CacheOn, l, ShareSaved); ok && row.Distinguishable && row.Median <= 0 {
			words = append(words, e.load(l))
		}
	}
	if len(words) == 0 {
		return nil
	}
	return []result.Finding{{Topic: "Cost", Text: "the cache costs more than it saves with " + strings.Join(words, "; ") + ": the path behind it costs less than a look-up that misses the CPU's caches."}}
}

// many sets the most flows beside the study's.
func (e evidence) many() []result.Finding {
	key, ok := e.key()
	if !ok {
		return nil
	}
	most := key
	for _, l := range Loads(e.Result) {
		if _, ok := e.row(CacheOn, l, transit.NSPerPacket); ok && l.Routes == key.Routes && l.Flows > most.Flows {
			most = l
		}
	}
	few, okFew := e.row(CacheOn, key, transit.NSPerPacket)
	much, okMuch := e.row(CacheOn, most, transit.NSPerPacket)
	if most == key || !okFew || !okMuch || much.Median == 0 {
		return nil
	}
	return []result.Finding{{Topic: "Flows", Text: fmt.Sprintf("with %s the path keeps %s of the rate that it has with %s (%s against %s ns per packet, generator and sink included).",
		diagnose.Flows(most.Flows), stats.Share(few.Median/much.Median), diagnose.Flows(key.Flows), stats.Figure(much.Median), stats.Figure(few.Median))}}
}

// behind compares what routes behind the cache cost with it and without.
func (e evidence) behind() []result.Finding {
	key, ok := e.key()
	bare := Load{Flows: key.Flows}
	on, okOn := e.time(CacheOn, key)
	off, okOff := e.time(CacheOff, key)
	bareOn, okBareOn := e.time(CacheOn, bare)
	bareOff, okBareOff := e.time(CacheOff, bare)
	if !ok || key.Routes == 0 || !okOn || !okOff || !okBareOn || !okBareOff {
		return nil
	}
	return []result.Finding{{Topic: "Routes", Text: fmt.Sprintf("%s of them add %s ns to a packet without the cache and %s with it (%s).",
		stats.Figure(float64(key.Routes)), signed(off.Median-bareOff.Median), signed(on.Median-bareOn.Median), diagnose.Flows(key.Flows))}}
}

func signed(ns float64) string {
	if ns < 0 {
		return "−" + stats.Figure(-ns)
	}
	return stats.Figure(ns)
}

// underTest is the target that a verdict on r is about, "" for none.
func underTest(r result.Result) string { return diagnose.Gather(r, summarise, CacheOff).DUT }
