package peering

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/background"
	"github.com/selvage/selvage/internal/bgp"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/rib"
	"github.com/selvage/selvage/internal/writer"
)

// hosts reads hosts from the data path.
type hosts struct{ p *Peering }

// AtPorts is called by the goroutine of Run.
func (b hosts) AtPorts() ([]bgp.Host, error) {
	list, err := b.p.o.Edge.Hosts().Hosts()
	at := make([]bgp.Host, 0, len(list))
	for _, h := range list {
		at = append(at, bgp.Host{
			Host: evpn.Host{Segment: h.Segment, MAC: h.MAC, Addr: h.Addr, ND: h.ND},
			Port: h.Port, ByBGP: h.Origin == datapath.OriginBGP, Static: h.Static, Idle: time.Duration(h.IdleNS),
		})
	}
	return at, err
}

// ByBGP is called by the goroutine of Run.
func (b hosts) ByBGP() (macs []rib.BGPMAC, arpEntries []rib.ARPEntry, err error) {
	entries, err := b.p.o.Edge.Hosts().FDB()
	if err != nil {
		return nil, nil, err
	}
	neighbours, err := b.p.o.Edge.Hosts().Neighbours()
	for _, f := range entries {
		if f.Origin == datapath.OriginBGP {
			macs = append(macs, rib.BGPMAC{Segment: f.Segment, MAC: f.MAC, Remote: f.Remote, Sticky: f.Sticky})
		}
	}
	for _, n := range neighbours {
		if n.Origin == datapath.OriginBGP {
			arpEntries = append(arpEntries, rib.ARPEntry{Segment: n.Segment, Addr: n.Addr, MAC: n.MAC})
		}
	}
	return macs, arpEntries, err
}

// Solicit has hosts answer, some at a time.
func (b hosts) Solicit(list []bgp.Solicitation) error {
	var errs []error
	for some := range slices.Chunk(list, askSome) {
		b.p.o.Writer.Frames(func(f writer.Frames) {
			for _, a := range some {
				errs = append(errs, f.SolicitHost(a.Segment, a.Port, a.MAC, a.Addrs))
			}
		})
	}
	return errors.Join(errs...)
}

// lookShare is the least time between looks because of lost events, in the processor time of the last.
const lookShare = 10

// askSome are asked before others may change tables again.
const askSome = 32

// LookMissedHosts looks for those that no event told of, not all the time.
func (p *Peering) LookMissedHosts() {
	if !time.Now().Before(p.nextLook) {
		p.LookHosts()
	}
}

// LookHosts compares the hosts at ports with those that neighbours were told of, and asks
// those that are about to be forgotten whether they are there.
func (p *Peering) LookHosts() {
	b := p.process.Load()
	if b == nil {
		return
	}
	begin := time.Now()
	took, err := alarm.Timed(func() error { return b.Look(p.o.Edge.Configured().FDB.Ageing) })
	p.nextLook = begin.Add(lookShare * took)
	p.o.Report("read the hosts at ports", err)
}

// LookPorts looks for hosts when ports have come, gone, or lost their link: then a host is not
// there, as for the kernel's bridge.
func (p *Peering) LookPorts(hostState host.State) {
	var there []string
	down := make(map[string]bool)
	for _, a := range plan.Attachments(p.o.Edge.Configured()) {
		if link, ok := hostState.Links[a.Interface]; ok {
			there = append(there, fmt.Sprint(a.Name, " ", link.Index, " ", link.Up))
			down[a.Name] = !link.Up
		}
	}
	if !slices.Equal(there, p.ports) {
		p.ports = there
		if b := p.process.Load(); b != nil {
			p.o.Report("forget the hosts of ports without a link", b.PortsLost(down))
		}
		p.LookHosts()
	}
}

// HostsMissed has hosts looked for. It waits for nobody.
func (p *Peering) HostsMissed() { background.Notify(p.missed) }

// HostsCame takes news of hosts at ports.
func (p *Peering) HostsCame(list []bgp.Host) {
	if b := p.process.Load(); b != nil {
		b.HostsCame(list)
	}
}
