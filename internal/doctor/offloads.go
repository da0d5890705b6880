package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/doctor/fix"
)

// Selvage's own figures of the kernel's vxlan device (docs/guide/doctor.md has the table).
const (
	ownTxOff  = "kernel vxlan with tx off 4.4 instead of 15.0 Gbit/s, 0.25 instead of 0.82 of a plain bridge (Selvage's own measurement, veth, 2 cores)"
	ownAllOff = "kernel vxlan with all offloads off 2.1 instead of 15.0 Gbit/s, 0.12 instead of 0.82 of a plain bridge (Selvage's own measurement, veth, 2 cores)"
	s1Tunnel  = "the EgressGateway study: tunnel checksum offload off 2.5, on 8.9 Gbit/s"
	s2Tunnel  = "the QLogic study: offloads in the tunnel gave +19 % throughput at 10G (mean over I/O sizes; +32 % at 64 kB) and +18 % with 24 % less CPU at 25G"
)

// offload is a feature that tunnels live by.
type offload struct {
	features []string // of which one suffices
	set      string   // what ethtool -K calls it
	roles    []Role
	hardware bool                // of adapters only: software devices do not need it
	only     func([]Tunnel) bool // whether it matters for the tunnels over a link; nil is always
	needs    string              // the kernel turns it off together with this one
	does     string
	costs    string
}

func offloads() []offload {
	all := []Role{Underlay, Device, Port, Spare}
	below := []Role{Underlay, Spare}
	return []offload{
		{features: []string{"tx-checksum-ip-generic", "tx-checksum-ipv4"}, set: "tx", roles: all,
			does:  "The device fills in checksums; otherwise the kernel reads every byte and cannot use the device's segmentation either.",
			costs: ownTxOff},
		{features: []string{"tx-scatter-gather"}, set: "sg", roles: all, needs: "tx",
			does:  "Segments are sent without a copy; otherwise they are copied and not segmented late.",
			costs: ownAllOff},
		{features: []string{"tx-tcp-segmentation"}, set: "tso", roles: all, needs: "tx",
			does:  "TCP segments of up to 64 kB pass the tunnel whole, so its cost is paid once and not for each packet.",
			costs: ownAllOff},
		{features: []string{"tx-generic-segmentation"}, set: "gso", roles: all, needs: "sg",
			does:  "Where a device cannot, the kernel cuts segments as late as it can: after the tunnel.",
			costs: ownAllOff},
		{features: []string{"tx-udp_tnl-segmentation"}, set: "tx-udp_tnl-segmentation", roles: below, only: anyUDP,
			does:  "Segments inside VXLAN and Geneve are cut by the device; otherwise the tunnel's receiver pays for single packets.",
			costs: s2Tunnel},
		{features: []string{"tx-gre-segmentation"}, set: "tx-gre-segmentation", roles: below, only: anyGRE,
			does:  "Segments inside GRE and NVGRE are cut by the device.",
			costs: s2Tunnel},
		{features: []string{"rx-checksum"}, set: "rx", roles: below,
			does:  "The device verifies checksums; otherwise the kernel reads every byte and cannot coalesce cheaply.",
			costs: s1Tunnel},
		{features: []string{"rx-gro"}, set: "gro", roles: []Role{Underlay, Device, Spare}, hardware: true,
			does:  "Received packets of a flow are put together before the tunnel and the bridge see them.",
			costs: ownAllOff},
		{features: []string{"rx-udp_tunnel-port-offload"}, set: "rx-udp_tunnel-port-offload", roles: below, hardware: true, only: anyUDP,
			does:  "The device looks inside tunnels: inner checksums and RSS.",
			costs: s2Tunnel},
	}
}

func anyUDP(tunnels []Tunnel) bool {
	return slices.ContainsFunc(tunnels, func(t Tunnel) bool { return t.Port != 0 })
}

func anyGRE(tunnels []Tunnel) bool {
	return slices.ContainsFunc(tunnels, func(t Tunnel) bool { return strings.Contains(t.Encapsulation, "gre") })
}

// over returns the tunnels whose packets pass a link.
func (inv *Inventory) over(name string) []Tunnel {
	return slices.DeleteFunc(slices.Clone(inv.Tunnels), func(t Tunnel) bool {
		return !slices.Contains(t.underlays(), name) && t.Lower != name
	})
}

func (o offload) concerns(inv *Inventory, l *Link) bool {
	switch {
	case !slices.Contains(o.roles, l.Role), o.hardware && !l.Physical():
		return false
	case o.only == nil, l.Role == Spare:
		return true
	}
	return o.only(inv.over(l.Name))
}

// offloading is what a link has of the offloads that concern it.
type offloading struct {
	off      map[string][]string // what can be turned on, and what comes back with it
	hidden   map[string]string   // what comes back, and with what
	cannot   []string            // what no setting helps
	on       int
	settable map[string]string // the feature of those that are off
}

func (inv *Inventory) offloading(l *Link) offloading {
	s := offloading{off: map[string][]string{}, hidden: map[string]string{}, settable: map[string]string{}}
	for _, o := range offloads() {
		if !o.concerns(inv, l) {
			continue
		}
		s.add(o, l.NIC.Features)
	}
	return s
}

func (s *offloading) add(o offload, features map[string]Feature) {
	known, settable := false, ""
	for _, name := range o.features {
		f, ok := features[name]
		if f.On {
			s.on++
			return
		}
		if known = known || ok; ok && !f.Fixed && settable == "" {
			settable = name
		}
	}
	cause, follows := o.needs, false
	if _, follows = s.off[cause]; !follows {
		cause, follows = s.hidden[o.needs], s.hidden[o.needs] != ""
	}
	switch {
	case !known:
	case settable == "":
		s.cannot = append(s.cannot, o.features[0])
	case follows:
		s.hidden[o.set] = cause
		s.off[cause] = append(s.off[cause], settable)
	default:
		s.off[o.set], s.settable[o.set] = nil, settable
	}
}

// checkOffloads looks for offloads that are off and could be on, and says what an
// adapter cannot do.
func checkOffloads(inv *Inventory) []Finding {
	var found []Finding
	for _, role := range []Role{Underlay, Device, Port, Spare} {
		states := map[string]offloading{}
		for _, l := range inv.of(role) {
			if l.NIC != nil {
				states[l.Name] = inv.offloading(l)
			}
		}
		for _, o := range offloads() {
			var names []string
			for _, name := range sorted(states) {
				if _, off := states[name].off[o.set]; off {
					names = append(names, name)
				}
			}
			if len(names) > 0 {
				found = append(found, o.off(role, names, states[names[0]]))
			}
		}
		for _, name := range sorted(states) {
			l, _ := inv.link(name)
			s := states[name]
			if len(s.cannot) > 0 && l.Physical() {
				found = append(found, lacks(l, s.cannot))
			}
			if len(s.off) == 0 && s.on > 0 {
				found = append(found, good("offloads", name, "%d offloads that matter are on", s.on))
			}
		}
	}
	return found
}

// off is the finding of an offload that is off on some links of a role, the
// first of which is in state s.
func (o offload) off(role Role, names []string, s offloading) Finding {
	feature := s.settable[o.set]
	f := Finding{
		Check: "offloads", Severity: Warning, Subject: few(names),
		What:     fmt.Sprintf("%s is off (%s interface)", feature, role),
		Evidence: fmt.Sprintf("ethtool -k %s: %s: off, and not [fixed]", fix.Quote(names[0]), feature),
		Why: o.does + " Off costs: " + o.costs + ". " +
			"On some kernels and adapters, on is slower or corrupts packets: time both.",
		Measure: []string{iperf},
	}
	if with := s.off[o.set]; len(with) > 0 {
		f.Evidence += "; off with it: " + strings.Join(with, ", ")
	}
	if role == Device && o.set == "tx" {
		f.Why = o.does + " Off costs: " + s1Tunnel + ". On some kernels and adapters, on is slower or corrupts packets: time both."
	}
	for _, name := range first(names) {
		f.fix(fix.Fix{Interface: name, Do: fix.Run("ethtool", "-K", name, o.set, "on"), Undo: fix.Run("ethtool", "-K", name, o.set, "off")})
	}
	if place, ok := map[Role]string{Underlay: "underlay", Port: "access"}[role]; ok {
		f.Measure = append(f.Measure, fmt.Sprintf("selvage lab ab --targets plain,kernel,selvage --cases tcp --offload %s:%s=off  # its share on this machine", place, feature))
	}
	return f
}

// lacks is the finding of offloads that a device does not have.
func lacks(l *Link, features []string) Finding {
	return Finding{
		Check: "offloads", Severity: Note, Subject: l.Name,
		What:     fmt.Sprintf("the device cannot do %s", strings.Join(features, ", ")),
		Evidence: fmt.Sprintf("ethtool -k: off [fixed]; driver %s, firmware %s", orUnknown(l.NIC.Driver), orUnknown(l.NIC.Firmware)),
		Why:      "No setting helps: the kernel does the work, and another adapter would be needed. For comparison, " + s2Tunnel + ".",
		Measure:  []string{iperf, "mpstat -P ALL 1  # CPU of each core meanwhile"},
	}
}

// SameOffload says whether two fixes turn on one offload of an interface, which ethtool may call by a short name.
func SameOffload(a, b fix.Fix) bool {
	x, y := a.Do.Argv, b.Do.Argv
	return len(x) == 5 && len(y) == 5 && slices.Equal(x[:3], y[:3]) && x[4] == y[4] && (x[3] == y[3] ||
		slices.ContainsFunc(offloads(), func(o offload) bool { return o.set == x[3] && slices.Contains(o.features, y[3]) }))
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

// joining is a feature by which packets are joined that an edge has to take apart.
type joining struct {
	feature, set string
	severity     Severity
	why          string
}

var joinings = []joining{
	{"rx-udp-gro-forwarding", "rx-udp-gro-forwarding", Note, cutAgain}, {"rx-gro-list", "rx-gro-list", Note, cutAgain},
	{"rx-lro", "lro", Warning, "What the adapter joins, up to 64 kB, cannot be cut again into the packets that were sent, so it may be lost. The edge turned it off at its start; somebody turned it on again."},
}

const cutAgain = "The kernel joins datagrams in tunnels, and the edge has it cut them again before it takes the tunnel header off: each packet is received 2 times, and may overtake others of its flow. " +
	"Nothing is lost. It is of use where this host itself forwards or receives UDP by the interface."

// checkJoining looks for features that join packets where an edge's tunnels arrive.
func checkJoining(inv *Inventory) (found []Finding) {
	for _, l := range inv.of(Underlay) {
		ours := slices.ContainsFunc(inv.over(l.Name), func(t Tunnel) bool { return t.Source == fromSelvage })
		if l.NIC == nil || !ours {
			continue
		}
		for _, j := range joinings {
			if !l.NIC.Features[j.feature].On {
				continue
			}
			f := Finding{
				Check: "offloads", Severity: j.severity, Subject: l.Name, What: j.feature + " is on (underlay interface of an edge)",
				Evidence: fmt.Sprintf("ethtool -k %s: %s: on", fix.Quote(l.Name), j.feature), Why: j.why,
				Measure: []string{iperf},
			}
			f.fix(fix.Fix{Interface: l.Name, Do: fix.Run("ethtool", "-K", l.Name, j.set, "off"), Undo: fix.Run("ethtool", "-K", l.Name, j.set, "on")})
			found = append(found, f)
		}
	}
	return found
}
