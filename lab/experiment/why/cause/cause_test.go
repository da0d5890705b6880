package cause

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/doctor/facts"
	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/measure"
)

// end is a host whose path leaves by vx0 on eth0, with all offloads.
func end() End {
	offloads := func() map[string]facts.Feature {
		all := map[string]facts.Feature{"rx-gro": {On: true}}
		for _, name := range sendOffloads {
			all[name] = facts.Feature{On: true}
		}
		return all
	}
	return End{Device: "vx0", Facts: facts.Host{Interfaces: []facts.Interface{
		{Name: "eth0", Role: "underlay", Up: true, MTU: 1500, Features: offloads(), Addrs: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}},
		{Name: "vx0", Kind: "vxlan", VNI: 7, Up: true, MTU: 1450, Lower: "eth0", Features: offloads()},
		{Name: "eth9", Up: true, MTU: 1500, Features: map[string]facts.Feature{"tx-tcp-segmentation": {}}}, // of another path
	}}}
}

func healthy() Evidence {
	f := Figures{Gbits: 9, RRMicros: 20, Sent: 100_000, MTU: 1450, SentMTU: 1450}
	plain := f
	plain.Gbits = 10
	return Evidence{Ends: map[string]End{Client: end(), Server: end()}, Overlay: f, Plain: &plain, Port: 5300}
}

// change changes an interface of an end.
func (e Evidence) change(role, name string, f func(*facts.Interface)) {
	h := e.Ends[role].Facts
	i, _ := h.Interface(name)
	f(i)
}

func off(names ...string) func(*facts.Interface) {
	return func(i *facts.Interface) {
		for _, name := range names {
			i.Features[name] = facts.Feature{}
		}
	}
}

func (e Evidence) load(role string, l Load) {
	end := e.Ends[role]
	end.Load = l
	e.Ends[role] = end
}

// flows are 16 with that round trip, but for some.
func flows(rtt float64, others map[int]float64) (all []measure.FlowSize) {
	for i := range 16 {
		f := measure.FlowSize{Port: 20000 + i, Largest: 1450, RTT: rtt}
		if other, ok := others[i]; ok {
			f.RTT = other
			if other == 0 {
				f.Largest = 0
			}
		}
		all = append(all, f)
	}
	return all
}

func (e Evidence) kernel(role string, k agent.Evidence) {
	end := e.Ends[role]
	end.Kernel = k
	e.Ends[role] = end
}

// Each kind of evidence proposes its cause first, with what flips it; a healthy path proposes nothing.
func TestPropose(t *testing.T) {
	long := []agent.Chain{{Family: "inet", Table: "f", Name: "input", Hook: "input", Linear: 1000}}
	for name, c := range map[string]struct {
		plant func(*Evidence)
		want  []string // setting and object, in order
		flip  string   // of the first, "" for none
	}{
		"healthy":         {func(*Evidence) {}, nil, ""},
		"no plain path":   {func(e *Evidence) { e.Plain = nil }, nil, ""},
		"TSO of sender":   {func(e *Evidence) { e.change(Client, "vx0", off("tx-tcp-segmentation")) }, []string{"offload client:vx0"}, "client: ethtool -K vx0 tx-tcp-segmentation on"},
		"TSO of receiver": {func(e *Evidence) { e.change(Server, "vx0", off("tx-tcp-segmentation")) }, nil, ""},
		"TSO of underlay": {func(e *Evidence) { e.change(Client, "eth0", off("tx-tcp-segmentation")) }, []string{"offload client:eth0"}, "client: ethtool -K eth0 tx-tcp-segmentation on"},
		"fixed": {func(e *Evidence) {
			e.change(Client, "vx0", func(i *facts.Interface) { i.Features["tx-tcp-segmentation"] = facts.Feature{Fixed: true} })
		}, nil, ""},
		"GRO of receiver": {func(e *Evidence) { e.change(Server, "vx0", off("rx-gro")) }, []string{"gro server:vx0"}, "server: ethtool -K vx0 rx-gro on"},
		"GRO of sender":   {func(e *Evidence) { e.change(Client, "vx0", off("rx-gro")) }, nil, ""},
		"slow":            {func(e *Evidence) { e.Overlay.Gbits = 1 }, []string{"offload client:vx0:tx-checksum-ip-generic"}, "client: ethtool -K vx0 tx-checksum-ip-generic off"},
		"slow, without it": {func(e *Evidence) {
			e.Overlay.Gbits = 1
			e.change(Client, "vx0", off("tx-checksum-ip-generic", "tx-tcp-segmentation"))
		}, []string{"offload client:vx0"}, "client: ethtool -K vx0 tx-checksum-ip-generic on"},
		"hole": {func(e *Evidence) { e.Overlay.MTU = 1400 }, []string{"mtu overlay"}, "client: ip link set dev vx0 mtu 1400"},
		"rate limit": {func(e *Evidence) {
			e.kernel(Client, agent.Evidence{Qdiscs: []agent.Qdisc{{Interface: "eth0", Kind: "tbf", TBF: &agent.TBF{Rate: 1.25e9, Burst: 65536, Limit: 1e6}}}})
		}, []string{"qdisc client:eth0"}, "client: tc qdisc del dev eth0 root"},
		"rate limit elsewhere": {func(e *Evidence) {
			e.kernel(Client, agent.Evidence{Qdiscs: []agent.Qdisc{{Interface: "eth9", Kind: "tbf", TBF: &agent.TBF{Rate: 1.25e9}}}})
		}, nil, ""},
		"HTB": {func(e *Evidence) {
			e.kernel(Client, agent.Evidence{Qdiscs: []agent.Qdisc{{Interface: "vx0", Kind: "htb"}}})
		}, []string{"qdisc client:vx0"}, "client: tc -s qdisc show dev vx0"},
		"fq_codel": {func(e *Evidence) {
			e.kernel(Client, agent.Evidence{Qdiscs: []agent.Qdisc{{Interface: "vx0", Kind: "fq_codel"}}})
		}, nil, ""},
		"rules": {func(e *Evidence) { e.kernel(Server, agent.Evidence{Chains: long}) }, []string{"netfilter server:inet f input"}, "server: nft insert rule inet f input"},
		"few rules": {func(e *Evidence) {
			e.kernel(Server, agent.Evidence{Chains: []agent.Chain{{Family: "inet", Linear: 10}}})
		}, nil, ""},
		"bridge netfilter": {func(e *Evidence) {
			e.change(Server, "vx0", func(i *facts.Interface) { i.Master = "br0" })
			e.kernel(Server, agent.Evidence{Chains: long, Sysctls: map[string]string{"net.bridge.bridge-nf-call-iptables": "1"}})
		}, []string{"bridge-netfilter server", "netfilter server:inet f input"}, "server: sysctl -w net.bridge.bridge-nf-call-iptables=0"},
		"bridge netfilter without a bridge": {func(e *Evidence) {
			e.kernel(Server, agent.Evidence{Sysctls: map[string]string{"net.bridge.bridge-nf-call-iptables": "1"}})
		}, nil, ""},
		"one queue for tunnels": {func(e *Evidence) {
			e.change(Server, "eth0", func(i *facts.Interface) { i.Channels, i.Hash4 = &facts.Channels{Combined: 4, CombinedMax: 4}, "sd" })
		}, []string{"rss server:eth0"}, "server: ethtool -N eth0 rx-flow-hash udp4 sdfn"},
		"ports hashed": {func(e *Evidence) {
			e.change(Server, "eth0", func(i *facts.Interface) { i.Channels, i.Hash4 = &facts.Channels{Combined: 4, CombinedMax: 4}, "sdfn" })
		}, nil, ""},
		"hash unknown, one core": {func(e *Evidence) {
			e.change(Server, "eth0", func(i *facts.Interface) { i.Channels = &facts.Channels{Combined: 2, CombinedMax: 4} })
			e.load(Server, Load{Cores: []int64{99_000, 900}})
		}, []string{"rss server:eth0"}, "server: echo MASK"},
		"hash unknown, two cores": {func(e *Evidence) {
			e.change(Server, "eth0", func(i *facts.Interface) { i.Channels = &facts.Channels{Combined: 2, CombinedMax: 4} })
			e.load(Server, Load{Cores: []int64{60_000, 40_000}})
		}, nil, ""},
		"ring": {func(e *Evidence) {
			e.change(Server, "eth0", func(i *facts.Interface) { i.Ring = &facts.Ring{Rx: 256, RxMax: 4096} })
			e.load(Server, Load{NoRoom: map[string]int64{"eth0": 500, "eth9": 1000}})
		}, []string{"ring server:eth0"}, "server: ethtool -G eth0 rx 4096"},
		"largest ring": {func(e *Evidence) {
			e.change(Server, "eth0", func(i *facts.Interface) { i.Ring = &facts.Ring{Rx: 4096, RxMax: 4096} })
			e.load(Server, Load{NoRoom: map[string]int64{"eth0": 500}})
		}, []string{"ring server:eth0"}, "server: ethtool -L eth0"},
		"some without room": {func(e *Evidence) { e.load(Server, Load{NoRoom: map[string]int64{"eth0": 3}}) }, nil, ""},
		"pause": {func(e *Evidence) {
			e.change(Client, "eth0", func(i *facts.Interface) { i.Pause = &facts.Pause{Autoneg: true, Rx: true} })
			e.load(Client, Load{Pauses: map[string]int64{"eth0": 12}})
		}, []string{"pause client:eth0"}, "client: ethtool -A eth0 autoneg off rx off tx off"},
		"pause of the other end": {func(e *Evidence) { e.load(Client, Load{Pauses: map[string]int64{"eth0": 12}}) }, []string{"pause client:eth0"}, "client: ethtool -a eth0"},
		"small MSS":              {func(e *Evidence) { e.Overlay.MSS = 536 }, []string{"mss overlay"}, "both: ip route get"},
		"MSS of the MTU":         {func(e *Evidence) { e.Overlay.MSS = 1450 - 52 }, nil, ""},
		"slow path":              {func(e *Evidence) { e.Overlay.Flows = flows(100, map[int]float64{3: 900, 7: 950}) }, []string{"path overlay"}, "client: traceroute -U --sport=20003 -p 5300"},
		"silent path":            {func(e *Evidence) { e.Overlay.Flows = flows(100, map[int]float64{5: 0}) }, []string{"path overlay"}, "client: traceroute -U --sport=20005"},
		"paths alike":            {func(e *Evidence) { e.Overlay.Flows = flows(100, map[int]float64{5: 190, 6: 80}) }, nil, ""},
		"conntrack":              {func(e *Evidence) { e.kernel(Server, agent.Evidence{Tracked: 3}) }, []string{"conntrack server"}, "server: nft 'table inet selvage_lab_why"},
		"governor": {func(e *Evidence) {
			end := e.Ends[Client]
			end.Facts.Machine.CPU.Governors = map[string]int{"powersave": 4}
			e.Ends[Client] = end
		}, []string{"governor client"}, "client: for f in /sys/devices/system/cpu"},
		"governors": {func(e *Evidence) {
			end := e.Ends[Client]
			end.Facts.Machine.CPU.Governors = map[string]int{"powersave": 4, "performance": 4}
			e.Ends[Client] = end
		}, []string{"governor client"}, "client: cpupower frequency-set -g performance"},
		"steal":                {func(e *Evidence) { e.load(Server, Load{Steal: 0.2}) }, []string{"steal server"}, "server: mpstat 1"},
		"loss":                 {func(e *Evidence) { e.Overlay.LossPPM = 100 }, []string{"loss overlay"}, "both: selvage doctor"},
		"one datagram lost":    {func(e *Evidence) { e.Overlay.LossPPM = 10 }, nil, ""},
		"loss of the path too": {func(e *Evidence) { e.Overlay.LossPPM, e.Plain.LossPPM = 100, 80 }, nil, ""},
		"a hole comes first":   {func(e *Evidence) { e.Overlay.MTU = 1400; e.change(Client, "vx0", off("tx-tcp-segmentation")) }, []string{"mtu overlay", "offload client:vx0"}, "client: ip link"},
	} {
		t.Run(name, func(t *testing.T) {
			e := healthy()
			c.plant(&e)
			var got []string
			all := Propose(e)
			for _, p := range all {
				got = append(got, p.Setting+" "+p.Object)
				if p.Why == "" || p.Likelihood <= 0 || p.Likelihood > 1 {
					t.Errorf("%+v", p)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Fatalf("%q, want %q", got, c.want)
			}
			if len(all) > 0 && !strings.HasPrefix(all[0].Commands()[0], c.flip) {
				t.Errorf("commands %q, want %q", all[0].Commands(), c.flip)
			}
		})
	}
}

// Never more than Most, and each flip has what takes it back.
func TestMost(t *testing.T) {
	e := healthy()
	e.Overlay = Figures{Gbits: 1, RRMicros: 90, LossPPM: 500, Sent: 100_000, MTU: 1300, SentMTU: 1450}
	for _, name := range []string{"vx0", "eth0"} {
		e.change(Client, name, off("tx-tcp-segmentation"))
		e.change(Server, name, off("rx-gro"))
	}
	e.kernel(Server, agent.Evidence{Chains: []agent.Chain{{Family: "ip", Table: "filter", Name: "INPUT", Linear: 500}}})
	all := Propose(e)
	if len(all) != Most {
		t.Errorf("%d causes", len(all))
	}
	for i, c := range all {
		if i > 0 && c.Likelihood > all[i-1].Likelihood {
			t.Errorf("%s is likelier than the one before", c.Object)
		}
		for _, f := range c.Flips {
			back := f.Back
			if f.Switch.On == "" && (back.Interface != f.Change.Interface || back == f.Change) || f.Switch.On != "" && f.Switch.Off == "" {
				t.Errorf("%s: %+v is not taken back", c.Object, f)
			}
		}
	}
}
