package compare

import (
	"fmt"
	"net/netip"

	"github.com/selvage/selvage/internal/doctor"
	"github.com/selvage/selvage/internal/doctor/fix"
)

// Path is what probes from one host to another found: packets that must not be fragmented, of several source ports.
type Path struct {
	From      string     `json:"from"` // a place
	To        string     `json:"to"`
	Addr      netip.Addr `json:"addr"` // of To
	Interface string     `json:"interface,omitempty"`
	MTU       int        `json:"mtu"`     // bytes, of that interface
	FarMTU    int        `json:"far_mtu"` // bytes, of the interface that has Addr
	Largest   int        `json:"largest"` // bytes of the largest IP packet that arrived; 0 when none did
	// Reported is the MTU that a "packet too big" named, 0 when none came.
	Reported int `json:"reported,omitempty"`
	// Error is why it could not be probed.
	Error string `json:"error,omitempty"`
}

// Finding is what a path's probes mean; ok is false when they say nothing.
func (p Path) Finding() (f Finding, ok bool) {
	if p.Error != "" || p.Largest == 0 {
		return f, false
	}
	if p.Largest >= p.MTU {
		return Finding{Finding: doctor.Finding{
			Check: mtu, Severity: doctor.OK, Subject: p.subject(), What: fmt.Sprintf("packets of %d bytes arrive whole at %s", p.Largest, p.Addr),
		}}, true
	}
	told := "no router reported it: senders do not learn of it"
	if p.Reported > 0 {
		told = fmt.Sprintf("a router reported %d", p.Reported)
	}
	fits := p.Largest
	if p.FarMTU > 0 { // some devices take a VLAN tag's 4 bytes more than that
		fits = min(fits, p.FarMTU)
	}
	header := 28 // of IPv4 and ICMP
	if p.Addr.Is6() {
		header = 48
	}
	return Finding{At: p.From, Finding: doctor.Finding{
		Check: mtu, Severity: doctor.Fault, Subject: p.subject(),
		What:     fmt.Sprintf("packets of more than %d bytes from %s do not arrive at %s, but the MTU of %s is %d", p.Largest, p.From, p.To, p.Interface, p.MTU),
		Evidence: fmt.Sprintf("UDP probes without fragmentation to %s: %d bytes arrived, %d did not; %s", p.Addr, p.Largest, p.Largest+1, told),
		Why: "Full packets are lost while small ones pass; a tunnel over this path must not fragment (RFC 7348 section 4.3). " +
			"The FortiGate study: 9 Mbit/s in bursts with an MTU too large for its tunnel, 546 Mbit/s once it fitted.",
		Change:  []string{fix.Line("ip link set dev %s mtu %d  # at %s; or raise the MTU of the way, %s and its switch ports included", p.Interface, fits, p.From, p.To)},
		Measure: []string{fix.Line("ping -c 3 -M do -s %d %s  # at %s", p.MTU-header, p.Addr, p.From), both},
	}}, true
}

func (p Path) subject() string { return p.From + " → " + p.To }
