package experiments

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/gen"
)

func TestGenUsage(t *testing.T) {
	for args, want := range map[string]string{
		"--rate=1":                           `"1" is not max or a rate`,
		"--rate=1Gpps":                       `"1Gpps" is not max or a rate`,
		"--rate=-1Mpps":                      `"-1Mpps" is not max or a rate`,
		"--gbps=1 --rate=1Mpps":              "--gbps: give it or --rate",
		"--gbps=-1":                          "--gbps",
		"--duration=0s":                      "--duration: 0s is less than 1ms",
		"--burst=0":                          "--burst: 0 is not 1 or more",
		"--core 4095":                        "--core: 4095 is none of the usable cores",
		"--core -2":                          "--core: -2 is none of the usable cores",
		"--core -1":                          "",
		"--settle=-1s":                       "--settle",
		"--frame=63":                         "frames of 63 bytes are not within 64",
		"--frame=64 --family=6":              "frames of 64 bytes are not within 84",
		"--frame=64 --imix=64:1":             "cannot be a mix",
		"--imix=64":                          `"64" is not SIZE:WEIGHT`,
		"--imix=64:x":                        `"64:x" is not SIZE:WEIGHT`,
		"--flows=-1":                         "-1 flows",
		"--netns=a":                          "--interface is missing",
		"--sink=eth0":                        "--interface is missing",
		"--interface=eth0":                   "--dst-mac is missing",
		"--interface=eth0 --sink=a --sink=b": "--dst-mac is missing",
		"--interface=eth0 --dst-mac=1":       `--dst-mac: "1" is not a 48-bit MAC address`,
		"--interface=eth0 --sink=a --inner-src-mac=": "", // empty is none
		"--encap=vxlan --inner-dst-mac=x":            "--inner-dst-mac",
		"--encap=vxlan --local=2001:db8::1":          "not two addresses of one IP version",
		"--encap=vxlan --vni=16777216":               "more than 24 bits",
		"--encap=gue":                                "encap",
	} {
		_, err := parse(append([]string{"gen"}, strings.Fields(args)...)...)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", args, err, want)
		}
	}
}

// A rate in Gbit/s counts all that a frame takes on the wire.
func TestGenRate(t *testing.T) {
	for args, want := range map[string]float64{
		"":                                    0,
		"--rate=1.5Mpps":                      1.5e6,
		"--rate=250kpps":                      250e3,
		"--rate=10pps":                        10,
		"--gbps=10":                           10e9 / 8 / 84,
		"--gbps=10 --frame=1518":              10e9 / 8 / 1538,
		"--gbps=10 --frame=100 --encap=vxlan": 10e9 / 8 / 170,
		"--gbps=1 --imix=64:7,594:4,1518:1":   1e9 / 8 / (float64(7*64+4*594+1518)/12 + 20),
		"--gbps=10 --family=6":                10e9 / 8 / 104,
		"--gbps=10 --encap=nvgre --remote=192.0.2.9": 10e9 / 8 / (64 + 42 + 20),
	} {
		c, err := parse(append([]string{"gen"}, strings.Fields(args)...)...)
		if err != nil {
			t.Fatal(err)
		}
		if have := c.Gen.load().Rate; have < want*(1-1e-9) || have > want*(1+1e-9) {
			t.Errorf("%s: %v frames/s, want %v", args, have, want)
		}
	}
}

func TestGenTable(t *testing.T) {
	c, err := parse("gen", "--rate=1Mpps")
	if err != nil {
		t.Fatal(err)
	}
	lost := uint64(10)
	var out bytes.Buffer
	if err := c.Gen.print(&out, genOutcome{
		Sent: gen.Sent{Offered: 1000, Frames: 900, Bytes: 54_000, Overrun: 40, Unsent: 60, Duration: time.Millisecond, RateError: -0.1},
		Received: &gen.Report{
			Frames: 890, Shortest: 60, Longest: 110, Core: []uint64{0, 890}, Around: map[string]uint64{"plain": 1, "vxlan": 889}, Foreign: map[string]uint64{"arp": 2},
			Flows: 7, Gaps: 9, Reordered: 1, Duplicated: 2, Worst: []gen.Flow{{Flow: 3, Gaps: 8, Reordered: 1, Duplicated: 2}},
			Latency: gen.Latency{Count: 890, Min: time.Microsecond, Mean: 2 * time.Microsecond, Max: 3 * time.Microsecond, Jitter: 40},
		},
		Lost: &lost,
	}); err != nil {
		t.Fatal(err)
	}
	const want = `sent         900 frames in 1ms: 0.9000 Mpps, 0.432 Gbit/s
rate         1.0000 Mpps wanted, error -10.0000 %
unsent       60 (6 %): the generator was late
overrun      40 (4 %): the interface did not accept them
received     890 frames of 64 … 114 bytes, plain, vxlan
lost         10 (1.111 %)
flows        7: 1 reordered, 2 duplicated
worst flow   3: 8 missing, 1 reordered, 2 duplicated
latency µs   least 1.00  mean 2.00  most 3.00  jitter 0.040
             p50 3.00  p90 3.00  p99 3.00  p99.9 3.00
core 1       100 % of the received
foreign arp  2
`
	if out.String() != want {
		t.Errorf("table:\n%swant:\n%s", &out, want)
	}
}

// parse reads a command line of selvage lab.
func parse(args ...string) (*Commands, error) {
	c := NewCommands()
	return &c, experimenttest.Parse(&c, args...)
}
