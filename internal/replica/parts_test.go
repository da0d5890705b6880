package replica

import (
	"slices"
	"testing"
)

// linkParts links g with another, with parts by name.
func (g *gateway) linkParts(t *testing.T, port uint16, o *gateway, parts map[string]Part) {
	t.Helper()
	if err := g.Set([]Link{{Local: g.addr, Remote: o.addr, Port: port, Key: []byte("k"), Parts: parts}}); err != nil {
		t.Fatal(err)
	}
}

// Ends that are configured differently know it by name, go on, and know when they no longer are.
func TestParts(t *testing.T) {
	a, b := newGateway(t, 1, newTable(1)), newGateway(t, 2, newTable(2))
	port := freePort(t)
	a.linkParts(t, port, b, map[string]Part{"group g": {1}, "policy p": {2}, "policy q": {3}})
	b.linkParts(t, port, a, map[string]Part{"group g": {9}, "policy p": {2}, "policy q": {8}, "policy of b": {7}})
	differ := func(want ...string) func() bool {
		return func() bool {
			s, o := a.state(b, port), b.state(a, port)
			return s.Synced && o.Synced && slices.Equal(s.Differs, want) && slices.Equal(o.Differs, want)
		}
	}
	within(t, "both know what differs", differ("group g", "policy q"))
	since := a.state(b, port).Since
	b.linkParts(t, port, a, map[string]Part{"group g": {1}, "policy p": {2}, "policy q": {8}})
	within(t, "both know what still differs", differ("policy q"))
	b.linkParts(t, port, a, map[string]Part{"group g": {1}, "policy p": {2}, "policy q": {3}})
	within(t, "nothing differs", differ())
	if now := a.state(b, port).Since; now != since {
		t.Error("another configuration ended the connection")
	}
}

// Parts of a later build are not compared.
func TestPartsOfOtherBuilds(t *testing.T) {
	parts, err := parseParts([]byte{descriptionVersion + 1, 200})
	if parts != nil || err != nil {
		t.Errorf("of a later build: %v, %v", parts, err)
	}
}

func TestParseParts(t *testing.T) {
	parts := map[string]Part{"": {1}, "policy p": {2}}
	b := marshalParts(parts)
	got, err := parseParts(b)
	if err != nil || len(got) != 2 || got["policy p"] != parts["policy p"] {
		t.Errorf("%v, %v", got, err)
	}
	for i := range b {
		if got, err := parseParts(b[:i]); err == nil && i > 0 && len(got) >= 2 {
			t.Errorf("%d bytes of %d are %v", i, len(b), got)
		}
	}
	many := make(map[string]Part)
	for i := range 4000 {
		many[string(make([]byte, 60))+string(rune('a'+i%26))+string(rune(0x4e00+i))] = Part{}
	}
	if n := len(marshalParts(many)); n > maxParts || n < maxParts/2 {
		t.Errorf("%d bytes", n)
	}
}
