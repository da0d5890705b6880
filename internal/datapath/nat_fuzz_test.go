package datapath

import (
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/tier"
)

// natFuzzWorld has a few sessions, forwards and open mappings.
func natFuzzWorld(f *testing.F) *world {
	tier.Root(f)
	w := natWorld(f, ways()[0], natPortForwards, func(c *Config, tables *fib.Tables) {
		c.Egress.NATSessions = 1024
		two := natEgress(tables, "two")
		two.Independent, two.Open, two.Limit = true, true, 64
	})
	for _, c := range []struct{ from, words string }{
		{"bob", "udp 10.0.1.11:4100 > 203.0.113.5:53 30"}, {"bob", "tcp 10.0.1.11:4100 > 203.0.113.5:80 syn"}, {"bob", "icmp 10.0.1.11 > 203.0.113.5 id 4100 30"},
		{"tom", "udp 10.0.9.11:4100 > 203.0.113.5:53 30"}, {"dave", "udp 10.0.2.13:4100 > 203.0.113.6:53 30"}, {"alice", "tcp 10.0.1.10:4100 > 203.0.113.5:80 syn"},
	} {
		from := natHostOf(c.from)
		for _, words := range []string{c.words, natSix(c.words)} {
			if why, _ := w.natOffer(f, from, natFrame(from.src, from.dst, words)); why != "" {
				f.Fatalf("%s: %s", words, why)
			}
		}
	}
	return w
}

// natSeeds are the packets of the cases that a station sends.
func natSeeds(f *testing.F, names ...string) {
	for _, c := range slices.Concat(natCases, natForwardCases, natInboundCases) {
		for _, step := range c.steps {
			for _, s := range []string{step, natSixOnce(c, step)} {
				name, words, ok := natStepBy(s)
				if ok && slices.Contains(names, name) {
					f.Add(natFrame(nobody, nobody, words)[12:], byte(slices.Index(names, name)))
				}
			}
		}
	}
}

func natSixOnce(c natCase, step string) string {
	if c.only4 {
		return step
	}
	return natSixSteps([]string{step})[0]
}

// FuzzNATUplink gives any bytes behind the MACs to the uplink.
func FuzzNATUplink(f *testing.F) {
	w := natFuzzWorld(f)
	natSeeds(f, "isp")
	f.Fuzz(func(t *testing.T, b []byte, _ byte) { w.fuzzNAT(t, natHostOf("isp"), b) })
}

// FuzzNATInside gives any bytes behind the MACs to the policies' segments and a port.
func FuzzNATInside(f *testing.F) {
	w := natFuzzWorld(f)
	names := []string{"bob", "tom", "dave", "alice"}
	natSeeds(f, names...)
	f.Fuzz(func(t *testing.T, b []byte, who byte) { w.fuzzNAT(t, natHostOf(names[int(who)%len(names)]), b) })
}

// fuzzNAT offers a packet twice, for its flow: nothing leaves with an address of the
// inside, nothing that is cut short passes, all is accounted for.
func (w *world) fuzzNAT(t *testing.T, from natHost, b []byte) {
	if len(b) < 2 || len(b) > 2500 {
		return
	}
	frame := slices.Concat(hardware(from.dst), hardware(from.src), b)
	dev, whole := from.port, frame
	if dev == "" {
		dev, whole = "u0", w.outerIn(from.segment, w.family.remotes[from.remote]).Wrap(frame)
	}
	w.fuzz(t, dev, whole)
	r, err := w.tryOffer(t, dev, whole)
	must(t, err)
	if wrong := leaves(r.out); r.verdict == forwarded && wrong != "" {
		pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: whole}, {Name: "out", Bytes: r.out}}, "%s", wrong)
	}
}
