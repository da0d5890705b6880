package datapath

import "testing"

// counters are the drops and events that are not zero, by name.
func (w *world) counters(t testing.TB) (drops, events map[string]uint64) {
	t.Helper()
	list, err := w.dp.Traffic.Drops()
	must(t, err)
	drops, events = map[string]uint64{}, map[string]uint64{}
	for _, d := range list {
		if d.Packets > 0 {
			drops[d.Reason] = d.Packets
		}
	}
	sums, err := w.dp.Traffic.Events()
	must(t, err)
	for name, n := range sums {
		if n > 0 {
			events[name] = n
		}
	}
	fast, err := w.dp.Traffic.fastPackets()
	must(t, err)
	events["express"] = fast
	return drops, events
}

// counted runs f and returns by how much drops and events have grown.
func (w *world) counted(t testing.TB, f func()) (drops, events map[string]uint64) {
	t.Helper()
	drops0, events0 := w.counters(t)
	f()
	drops, events = w.counters(t)
	for before, after := range map[*map[string]uint64]map[string]uint64{&drops0: drops, &events0: events} {
		for k, n := range *before {
			if after[k] -= n; after[k] == 0 {
				delete(after, k)
			}
		}
	}
	return drops, events
}

func sum(m map[string]uint64) (n uint64) {
	for _, v := range m {
		n += v
	}
	return n
}

// fdb is where a MAC is known to be in blue: a port's name, a remote's address, or "".
func (w *world) fdb(t testing.TB, mac string) string {
	t.Helper()
	return w.fdbIn(t, "blue", mac)
}

func (w *world) fdbIn(t testing.TB, segment, mac string) string {
	t.Helper()
	e := w.fdbEntry(t, segment, mac)
	switch {
	case e == nil:
		return ""
	case e.Port != "":
		return e.Port
	}
	return e.Remote.String()
}

func (w *world) fdbEntry(t testing.TB, segment, mac string) *FDBEntry {
	t.Helper()
	list, err := w.dp.Hosts.FDB()
	must(t, err)
	for _, e := range list {
		if e.Segment == segment && e.MAC == macOf(mac) {
			return &e
		}
	}
	return nil
}
