package ab

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/lab/transit"
)

func parse(t *testing.T, args ...string) *Command {
	t.Helper()
	c := new(commands)
	if err := experimenttest.Parse(c, append([]string{"ab"}, args...)...); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return &c.Ab
}

func TestDefaults(t *testing.T) {
	ab := parse(t)
	if got := strings.Join(ab.Targets, ","); got != "wire,plain,kernel,selvage" {
		t.Errorf("targets %s", got)
	}
	if ab.Rounds != 10 || ab.Cycles != 20 || ab.Slice != 10*time.Millisecond || ab.Streams != 1 || strings.Join(ab.Cases, ",") != "tcp,rr,udp" || ab.Output != "table" || ab.Results != "results" {
		t.Errorf("%+v", ab)
	}
	bulk, rr := ab.pins()
	if bulk != measure.Apart() || rr.Client != rr.Server {
		t.Errorf("pins %v and %v", bulk, rr)
	}
	bulk, rr = parse(t, "--no-pin").pins()
	if bulk.Client != measure.Unpinned || bulk.Server != measure.Unpinned || rr != bulk {
		t.Errorf("without pins: %v and %v", bulk, rr)
	}
}

func TestMTUs(t *testing.T) {
	for args, want := range map[string][3]int{
		"":                                     {1500, 1450, 1450},
		"--family=6":                           {1500, 1430, 1430},
		"--underlay-mtu=9000":                  {9000, 8950, 8950},
		"--underlay-mtu=9000 --inner-mtu=1500": {9000, 1500, 1500},
		"--plain-mtu=1500":                     {1500, 1450, 1500},
		// One MTU for all: what the largest header leaves.
		"--encap=geneve":                                    {1500, 1450, 1450},
		"--targets=plain,selvage --encap=nvgre":             {1500, 1458, 1458},
		"--targets=plain,kernel,selvage --encap=nvgre":      {1500, 1450, 1450},
		"--targets=plain,selvage-nvgre --family=6":          {1500, 1438, 1438},
		"--targets=selvage-nvgre,selvage-geneve --family=6": {1500, 1430, 1430},
		"--targets=wire,plain --encap=nvgre":                {1500, 1450, 1450},
	} {
		ab := parse(t, strings.Fields(args)...)
		if got := [3]int{ab.UnderlayMTU, ab.endMTU("selvage"), ab.endMTU("wire")}; got != want || ab.endMTU("plain") != got[2] || ab.endMTU("ovs") != got[1] {
			t.Errorf("%q: underlay, inner, plain %v, want %v", args, got, want)
		}
	}
}

func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"--targets=wire,plane":                            `unknown target "plane"; choose from wire, limit, limit-vxlan, plain, kernel, ovs, ovs-geneve, selvage, selvage-geneve, selvage-nvgre`,
		"--targets=plain,plain":                           "plain is named twice",
		"--targets=plain":                                 "plain alone is compared with nothing",
		"--targets=":                                      "name at least one",
		"--cases=tcp,sctp":                                "sctp",
		"--cases=tcp,tcp":                                 "tcp is named twice",
		"--rounds=0":                                      "--rounds",
		"--streams=129":                                   "1 … 128",
		"--cycles=0":                                      "--cycles",
		"--slice=1ms":                                     "5ms … 10s",
		"--targets=plain,kernel=/bin/sh":                  "kernel is no edge; use another name for the build, such as old=/bin/sh",
		"--targets=a=/nowhere":                            "/nowhere: no such file",
		"--targets=a=/etc/passwd":                         "/etc/passwd is not a program",
		"--targets=A-b=/bin/sh":                           `"A-b" is not a name for a build`,
		"--targets=a=/bin/sh,a=/bin/ls":                   "a is named twice",
		"--targets=limit --routed":                        "limit bridges only",
		"--cases=tcp,transit --inner-family=6":            "run lab rfc2544 --family 6",
		"--targets=limit-vxlan --family=6":                "limit-vxlan is a tunnel over IPv4",
		"--flows=0":                                       "--flows: 0 is not within 1 … 4000000",
		"--load=selvage --targets=plain,kernel":           "--load: selvage is no edge among --targets",
		"--load=kernel --targets=kernel,selvage":          "--load: kernel is no edge",
		"--load=selvage --routed":                         "leave out --routed",
		"--targets=ovs --cases=transit":                   "run lab rfc2544",
		"--inner-mtu=1451":                                "1280 … 1450",
		"--inner-mtu=1431 --family=6":                     "1280 … 1430",
		"--plain-mtu=1501":                                "--plain-mtu: 1501",
		"--underlay-mtu=1300":                             "--inner-mtu: 1250",
		"--underlay-mtu=70000":                            "--underlay-mtu",
		"--family=5":                                      "family",
		"--output=xml":                                    "output",
		"--offload=tx-checksum=off":                       "ROLE:FEATURE=on or =off",
		"--offload=underlay:x=no":                         "ROLE:FEATURE=on or =off",
		"--offload=uplink:x=off":                          `unknown role "uplink"; choose from client, access, underlay, server`,
		"--offload=client:x=on,client:x=off":              "client:x is named twice",
		"--bridge-netfilter=yes":                          `must be one of "default","on","off"`,
		"--selvage-binary=/nowhere":                       "/nowhere",
		"--encap=gre":                                     `must be one of "vxlan","geneve","nvgre"`,
		"--targets=selvage,selvage-geneve --encap=geneve": "selvage and selvage-geneve are the same with --encap geneve",
		"--targets=ovs-geneve,ovs --encap=geneve":         "ovs-geneve and ovs are the same",
		"--targets=plain,ovs-geneve --routed":             "ovs-geneve bridges only",
		"--targets=selvage-nvgre --inner-mtu=1459":        "1280 … 1458",
		"--targets=selvage-nvgre,kernel --inner-mtu=1451": "1280 … 1450",
	} {
		err := experimenttest.Parse(new(commands), append([]string{"ab"}, strings.Fields(args)...)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", args, err, want)
		}
	}
}

func TestOffload(t *testing.T) {
	ab := parse(t, "--offload", "underlay:tx-udp_tnl-segmentation=off,client:rx-gro=off", "--offload", "access:rx-gro-list=on")
	want := []experiment.Toggle{{Role: "underlay", Feature: "tx-udp_tnl-segmentation", On: false}, {Role: "client", Feature: "rx-gro", On: false}, {Role: "access", Feature: "rx-gro-list", On: true}}
	if !slices.Equal(ab.Offload, want) {
		t.Errorf("got %v, want %v", ab.Offload, want)
	}
	if got := ab.parameters()["offload"].String(); got != "underlay:tx-udp_tnl-segmentation=off, client:rx-gro=off, access:rx-gro-list=on" {
		t.Errorf("parameter %q", got)
	}
}

func TestBridgeNetfilterFlag(t *testing.T) {
	for args, want := range map[string]topo.BridgeNetfilter{
		"":                           topo.BridgeNetfilterOff,
		"--bridge-netfilter=default": topo.BridgeNetfilterDefault,
		"--bridge-netfilter=on":      topo.BridgeNetfilterOn,
		"--bridge-netfilter=off":     topo.BridgeNetfilterOff,
	} {
		ab := parse(t, strings.Fields(args)...)
		if got := ab.parameters().Text("bridge_netfilter"); ab.BridgeNetfilter != want || got != string(want) {
			t.Errorf("%q: %s, parameter %q, want %s", args, ab.BridgeNetfilter, got, want)
		}
	}
}

// Two programs make two targets of one data path, and have selvage's MTU.
func TestBuilds(t *testing.T) {
	ab := parse(t, "--targets=old=/bin/sh,selvage=/bin/ls,selvage-geneve,new=/bin/ls", "--selvage-binary=/bin/cat")
	if got := strings.Join(ab.Targets, ","); got != "old,selvage,selvage-geneve,new" {
		t.Errorf("targets %s", got)
	}
	for name, want := range map[string]string{"old": "/bin/sh", "selvage": "/bin/ls", "new": "/bin/ls", "selvage-geneve": "/bin/cat"} {
		if got := ab.selvageOptions(name).Binary; got != want || ab.path(name) != "selvage" || ab.endMTU(name) != 1450 {
			t.Errorf("%s: %s, path %s, MTU %d", name, got, ab.path(name), ab.endMTU(name))
		}
	}
	if ab.encapsulation("old") != overlay.VXLAN || ab.encapsulation("selvage-geneve") != overlay.Geneve {
		t.Error("encapsulations")
	}
	p := ab.parameters()
	if p.Text("program_new") != "/bin/ls" || p.Text("program_old") != "/bin/sh" || p.Text("program_selvage") != "/bin/ls" {
		t.Errorf("parameters %v", p)
	}
}

func TestKinds(t *testing.T) {
	ab := parse(t, "--cases=rr,transit,tcp")
	if got := strings.Join(ab.kinds(), ","); got != "rr-1,rr-1024,transit-encap,transit-decap,tcp" {
		t.Errorf("kinds %s", got)
	}
	for name, want := range map[string]string{"limit": transit.LimitName, "plain": transit.RouteName, "kernel": transit.KernelName, "selvage-nvgre": "selvage-nvgre"} {
		if _, got := ab.transitOf(name); got != want {
			t.Errorf("%s in transit: %s, want %s", name, got, want)
		}
	}
	for _, name := range []string{"wire", "limit-vxlan"} {
		if forwarder, _ := ab.transitOf(name); forwarder != nil {
			t.Errorf("%s forwards", name)
		}
	}
}

func TestRoundPace(t *testing.T) {
	p := roundPace{planned: 10 * time.Second}
	if got := p.left(3); got != 30*time.Second {
		t.Errorf("as planned %s", got)
	}
	p.took(4 * time.Second)
	p.took(6 * time.Second)
	if got := p.left(3); got != 15*time.Second {
		t.Errorf("as taken %s", got)
	}
}

// A round in a few words names the main figure of each case.
func TestOutcome(t *testing.T) {
	ab := &Command{Targets: []string{"plain", "kernel"}}
	r := result.Result{Samples: []result.Sample{
		{Round: 2, Target: "plain", Case: "udp", Metrics: map[string]float64{"udp_pps": 185, "idle_busy": 0.5}},
		{Round: 2, Target: "kernel", Case: "udp", Metrics: map[string]float64{"udp_pps": 128}},
	}}
	if got, want := ab.outcome(r, 2), "udp 185 128 kpps, but other processes kept the machine 50 % busy"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestEncapsulations(t *testing.T) {
	ab := parse(t, "--encap=nvgre", "--targets=wire,plain,kernel,ovs,ovs-geneve,selvage,selvage-geneve")
	want := map[string]overlay.Encapsulation{"wire": "", "plain": "", "kernel": overlay.VXLAN, "ovs": overlay.NVGRE, "ovs-geneve": overlay.Geneve, "selvage": overlay.NVGRE, "selvage-geneve": overlay.Geneve}
	for _, name := range ab.Targets {
		if got := ab.encapsulation(name); got != want[name] {
			t.Errorf("%s: %q, want %q", name, got, want[name])
		}
	}
	env := result.Environment{}
	kernel := ab.target("kernel", &topo.Path{Description: "a device"}, env)
	if kernel.Description != "a device, VXLAN in every run" {
		t.Errorf("kernel: %q", kernel.Description)
	}
	ours := ab.target("selvage", &topo.Path{InnerMTU: 1450}, env)
	if want := 42.0 / 1530; math.Abs(ours.HeaderTax-want) > 1e-9 {
		t.Errorf("header tax of NVGRE %v, want %v", ours.HeaderTax, want)
	}
	if p := ab.parameters(); p.Text("encapsulation") != "nvgre" || p["routed"].Value != result.Bool(false) {
		t.Errorf("parameters %v", p)
	}
	if p := parse(t, "--routed").parameters(); !p.Bool("routed") {
		t.Errorf("parameters %v", p)
	}
}

func TestControl(t *testing.T) {
	if ab := parse(t); ab.Control != "static" || ab.Routed {
		t.Errorf("by default %s, routed %t", ab.Control, ab.Routed)
	}
	if ab := parse(t, "--control=evpn"); !ab.Routed {
		t.Error("a fabric that BGP feeds routes between two subnets")
	}
	for args, want := range map[string]string{
		"--control=bgp": "--control",
		"--control=evpn --family=6 --targets=plain,kernel": "FRR before version 10.6",
		"--control=evpn --targets=plain,ovs":               "ovs bridges only",
	} {
		if err := experimenttest.Parse(new(commands), append([]string{"ab"}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	parse(t, "--control=evpn", "--family=6", "--targets=plain,selvage")
}
