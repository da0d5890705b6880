package bgp

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
)

// Hosts are asked before they are forgotten, and those whose addresses only BGP tells.
func TestIdleHostsAreProbed(t *testing.T) {
	ageing := 100 * time.Second
	segments := map[string]bool{"blue": true}
	late, fresh := 80*time.Second, time.Second
	hosts := []Host{
		{Host: evpn.Host{Segment: "blue", MAC: hostA}, Port: "p0", Idle: late},
		{Host: evpn.Host{Segment: "blue", MAC: hostA, Addr: addr("10.0.0.5")}, Port: "p0", Idle: fresh},
		{Host: evpn.Host{Segment: "blue", MAC: hostB}, Port: "p0", Idle: fresh},
		{Host: evpn.Host{Segment: "blue", MAC: hostB, Addr: addr("10.0.0.6")}, Port: "p0", Idle: late}, // lives four times as long
		{Host: evpn.Host{Segment: "blue", MAC: macOf(1)}, Port: "p0", Idle: late},                      // no address is known
		{Host: evpn.Host{Segment: "red", MAC: hostA}, Port: "p1", Idle: late},
	}
	got := idle(hosts, segments, ageing)
	if len(got) != 1 || got[0].MAC != hostA || !slices.Equal(got[0].Addrs, []netip.Addr{addr("10.0.0.5")}) {
		t.Errorf("asked %+v", got)
	}
	hosts[3].Idle *= 4
	if got := idle(hosts, segments, ageing); len(got) != 2 || got[1].MAC != hostB {
		t.Errorf("asked %+v", got)
	}
	hosts[3].Idle, hosts[3].ByBGP = fresh, true
	if got := idle(hosts, segments, 0); len(got) != 1 || got[0].MAC != hostB {
		t.Errorf("without ageing asked %+v", got)
	}
}

// Neighbours hear of hosts at ports as they come, and of those that a look finds or misses.
func TestHostsAreAnnounced(t *testing.T) {
	w := start(t, nil)
	key := func(m overlay.MAC) evpn.Key {
		return evpn.Key{Type: evpn.MACIP, RD: overlay.AddrDistinguisher(tep, 100), MAC: m}
	}
	at := func(m overlay.MAC) Host { return Host{Host: evpn.Host{Segment: "blue", MAC: m}, Port: "p0"} }
	w.process.HostsCame([]Host{at(hostA), {Host: evpn.Host{Segment: "red", MAC: hostB}, Port: "p1"}})
	w.done()
	if _, a := w.announced[key(hostA)]; !a || len(w.announced) != 2 {
		t.Errorf("announced are %v, want the host and the segment", w.announced)
	}
	w.hosts = []Host{at(hostB)}
	if err := w.process.Look(0); err != nil {
		t.Fatal(err)
	}
	w.done()
	_, a := w.announced[key(hostA)]
	if _, b := w.announced[key(hostB)]; a || !b {
		t.Errorf("after a look announced are %v", w.announced)
	}
	if err := w.process.PortsLost(map[string]bool{"p0": true}); err != nil || len(w.forgotten) != 1 || w.forgotten[0].MAC != hostB {
		t.Errorf("forgotten are %v, %v", w.forgotten, err)
	}
}

// What a former process had stays until the neighbours said all anew; then the rest goes.
func TestSweepAfterARestart(t *testing.T) {
	w := start(t, func(o *Options) { o.Settling = true })
	w.macs[hostA], w.macs[hostB] = far, far
	w.options.Receive([]evpn.Update{hostAt(hostA, 0)})
	w.options.Session(evpn.Session{Neighbour: rr, Up: true, Complete: true, At: time.Now()})
	w.within("it settles", func() bool { return slices.Contains(w.events, "settled") })
	if err := w.process.Sweep(); err != nil {
		t.Fatal(err)
	}
	w.done()
	if _, stays := w.macs[hostA]; !stays || len(w.macs) != 1 {
		t.Errorf("left are %v", w.macs)
	}
}
