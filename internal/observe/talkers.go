package observe

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/selvage/selvage/internal/api"
)

// mostTalkers bounds what is remembered: of more, those that are least are forgotten.
const mostTalkers = 10_000

// shownTalkers is how many lines there are.
const shownTalkers = 20

// Talker is who causes packets of a kind.
type Talker struct {
	Reason  string `json:"reason,omitempty"` // "" of forwarded packets
	From    string `json:"from"`             // port, remote or outer source
	Source  string `json:"source"`
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// Talkers sums packets by reason, where they come from, and source.
type Talkers struct{ by map[Talker]*Talker }

// TalkersDocument is a summary.
type TalkersDocument struct {
	Talkers []Talker          `json:"talkers"` // of packets that were shown, the most first
	Counts  api.MonitorCounts `json:"counts"`
}

// Add counts a packet, once however many points tell of it.
func (t *Talkers) Add(p api.PacketInfo) {
	if p.Point == "egress" || p.Point == "copy" {
		return
	}
	if t.by == nil {
		t.by = map[Talker]*Talker{}
	}
	key := Talker{Reason: p.Reason, From: cmp.Or(p.Port, p.Remote, p.Outer, p.Interface), Source: p.Source}
	at := t.by[key]
	if at == nil {
		if len(t.by) >= mostTalkers {
			t.forget()
		}
		at = &Talker{Reason: key.Reason, From: key.From, Source: key.Source}
		t.by[key] = at
	}
	at.Packets++
	at.Bytes += uint64(p.Length)
}

// forget keeps the half that has more.
func (t *Talkers) forget() {
	kept := t.sorted()[:mostTalkers/2]
	t.by = make(map[Talker]*Talker, mostTalkers)
	for _, one := range kept {
		t.by[Talker{Reason: one.Reason, From: one.From, Source: one.Source}] = &one
	}
}

func (t *Talkers) sorted() []Talker {
	list := make([]Talker, 0, len(t.by))
	for _, one := range t.by {
		list = append(list, *one)
	}
	slices.SortFunc(list, func(a, b Talker) int {
		return cmp.Or(cmp.Compare(b.Packets, a.Packets), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.From, b.From), cmp.Compare(a.Source, b.Source))
	})
	return list
}

// Document is the summary.
func (t *Talkers) Document(c api.MonitorCounts) TalkersDocument {
	list := t.sorted()
	return TalkersDocument{Talkers: list[:min(len(list), shownTalkers)], Counts: c}
}

// Write writes the summary as a table.
func (t *Talkers) Write(w Writer, c api.MonitorCounts) error {
	err := table(w, "REASON FROM SOURCE SHOWN SHARE", t.Document(c).Talkers, func(one Talker) []any {
		share := 0.0
		if c.Shown > 0 {
			share = 100 * float64(one.Packets) / float64(c.Shown)
		}
		return []any{cmp.Or(one.Reason, "(forwarded)"), one.From, one.Source, one.Packets, fmt.Sprintf("%.1f%%", share)}
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, MonitorTotals(c))
	return err
}
