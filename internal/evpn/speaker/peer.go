package speaker

import (
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"github.com/selvage/selvage/internal/evpn/message"
	"github.com/selvage/selvage/internal/evpn/transport"
	"github.com/selvage/selvage/internal/overlay"
)

const (
	// warnPercent of a neighbour's most prefixes are worth a warning.
	warnPercent = 80
	// deferral is how long announcements wait for the neighbours to have said all that they
	// have, seconds (RFC 4724 section 4.1); GoBGP knows no less.
	deferral = 1
)

var families = map[overlay.BGPFamily]bgp.Family{
	overlay.FamilyEVPN: bgp.RF_EVPN,
	overlay.FamilyIPv4: bgp.RF_IPv4_UC,
	overlay.FamilyIPv6: bgp.RF_IPv6_UC,
}

func apiFamily(f bgp.Family) *api.Family {
	return &api.Family{Afi: api.Family_Afi(f.Afi()), Safi: api.Family_Safi(f.Safi())}
}

// peerOf makes a neighbour one of GoBGP's.
func peerOf(b overlay.BGP, n overlay.BGPNeighbour, restarting bool) *api.Peer {
	p := &api.Peer{
		// Routes with the own AS in their path are told too, and package evpn says why they are not used.
		Conf: &api.PeerConf{NeighborAddress: n.Addr.String(), PeerAsn: n.AS, LocalAsn: b.AS, AllowOwnAsn: message.MostOwn},
		Timers: &api.Timers{Config: &api.TimersConfig{
			HoldTime:          seconds(n.Timers.Hold),
			KeepaliveInterval: seconds(n.Timers.Keepalive),
			// After a reset that this edge asks for, it is the first to want the session back.
			IdleHoldTimeAfterReset: 1,
		}},
		Transport:       &api.Transport{PassiveMode: true}, // package transport dials
		GracefulRestart: restartOf(b.Restart, restarting),
	}
	if n.Local.IsValid() {
		p.Transport.LocalAddress = n.Local.String()
	}
	// GoBGP sets the TTL of each connection once more.
	switch ttl, least := hops(b, n); {
	case least != 0:
		p.TtlSecurity = &api.TtlSecurity{Enabled: true, TtlMin: uint32(least)}
	case ttl != 0:
		p.EbgpMultihop = &api.EbgpMultihop{Enabled: true, MultihopTtl: uint32(ttl)}
	}
	for _, name := range n.Families {
		f := apiFamily(families[name])
		p.AfiSafis = append(p.AfiSafis, &api.AfiSafi{
			Config:            &api.AfiSafiConfig{Family: f, Enabled: true},
			MpGracefulRestart: &api.MpGracefulRestart{Config: &api.MpGracefulRestartConfig{Enabled: b.Restart.Time > 0}},
			LongLivedGracefulRestart: &api.LongLivedGracefulRestart{Config: &api.LongLivedGracefulRestartConfig{
				Enabled: longLived(b.Restart), RestartTime: uint32(seconds(b.Restart.Stale)),
			}},
			PrefixLimits: &api.PrefixLimit{Family: f, MaxPrefixes: n.MaxPrefixes, ShutdownThresholdPct: warnsAt(n.MaxPrefixes)},
		})
	}
	return p
}

// warnsAt is the share of a neighbour's most prefixes at which it is warned about, in percent; 0, which is none, of a few.
func warnsAt(most uint32) uint32 {
	if most < 10 {
		return 0
	}
	return warnPercent
}

// hops are the TTL of what is sent to a neighbour, and the least of what comes from it; 0: any. What came over so many hops has at
// least that left (RFC 5082 section 3).
func hops(b overlay.BGP, n overlay.BGPNeighbour) (ttl, least int) {
	switch {
	case n.Security:
		return 255, 256 - max(int(n.Hops), 1)
	case n.AS != b.AS:
		return max(int(n.Hops), 1), 0
	}
	return 0, 0
}

// connectionOf is what connections with a neighbour are like.
func connectionOf(b overlay.BGP, n overlay.BGPNeighbour) transport.Neighbour {
	c := transport.Neighbour{Addr: n.Addr, Port: n.Port, Local: n.Local, Password: n.Password, Passive: n.Passive, Retry: n.Timers.ConnectRetry, AS: n.AS}
	c.TTL, c.MinTTL = hops(b, n)
	for _, name := range n.Families {
		c.Families = append(c.Families, message.Family{AFI: families[name].Afi(), SAFI: families[name].Safi()})
	}
	return c
}

// restartOf is the graceful restart that is offered. It always is, if only to hear when a
// neighbour has said all (RFC 4724 section 2); with a time neighbours are asked to keep what
// this edge told them. One that is restarting says that forwarding went on meanwhile.
func restartOf(r overlay.BGPRestart, restarting bool) *api.GracefulRestart {
	return &api.GracefulRestart{
		Enabled:             true,
		HelperOnly:          r.Time <= 0,
		RestartTime:         uint32(seconds(r.Time)),
		DeferralTime:        deferral,
		NotificationEnabled: true,
		LonglivedEnabled:    longLived(r),
		LocalRestarting:     restarting && r.Time > 0,
	}
}

func longLived(r overlay.BGPRestart) bool { return r.Time > 0 && r.Stale > 0 }

func seconds(d time.Duration) uint64 { return uint64(d / time.Second) }
