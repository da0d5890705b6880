package speaker

import (
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

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
		Conf: &api.PeerConf{NeighborAddress: n.Addr.String(), PeerAsn: n.AS, LocalAsn: b.AS, AuthPassword: n.Password},
		Timers: &api.Timers{Config: &api.TimersConfig{
			HoldTime:          seconds(n.Timers.Hold),
			KeepaliveInterval: seconds(n.Timers.Keepalive),
			ConnectRetry:      max(seconds(n.Timers.ConnectRetry), 1),
			// After a reset that this edge asks for, it is the first to want the session back.
			IdleHoldTimeAfterReset: 1,
		}},
		Transport:       &api.Transport{RemotePort: uint32(n.Port), PassiveMode: n.Passive},
		GracefulRestart: restartOf(b.Restart, restarting),
	}
	if n.Local.IsValid() {
		p.Transport.LocalAddress = n.Local.String()
	}
	switch {
	case n.Security:
		// What came over so many hops has at least this TTL left (RFC 5082 section 3).
		p.TtlSecurity = &api.TtlSecurity{Enabled: true, TtlMin: 256 - uint32(max(n.Hops, 1))}
	case n.Hops > 1:
		p.EbgpMultihop = &api.EbgpMultihop{Enabled: true, MultihopTtl: uint32(n.Hops)}
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
