package writer

import (
	"net/netip"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// DataPath is what of an open data path the goroutine alone calls.
type DataPath struct {
	Tables  Tables
	Paths   Paths
	Egress  Egress
	Routes  Routes
	Learner Learner
	Hosts   Hosts
	Frames  Frames
}

// The subjects of a data path.
type (
	// Tables are what it forwards by.
	Tables interface {
		ApplyIn(t fib.Tables, steps datapath.Steps) error
	}
	// Paths are the ways to remotes.
	Paths interface {
		Steer(teps []fib.TEP, pathPolicies []fib.PathPolicy) error
	}
	// Egress is who translates which sources to what.
	Egress interface {
		SteerEgress(list []fib.Egress) error
	}
	// Routes takes over what BGP says of routes.
	Routes interface {
		PutRoutes(list []fib.Router) error
	}
	// Learner does so with hosts.
	Learner interface {
		PutBGPMACs(list []rib.BGPMAC) error
		PutARPEntries(list []rib.ARPEntry) error
	}
	// Hosts are those at ports.
	Hosts interface {
		Forget(segment string, mac overlay.MAC) error
	}
	// Frames are sent to hosts, by the names of the tables in force.
	Frames interface {
		AnnounceAddress(uplink string, addr netip.Addr) error
		SolicitHost(segment, port string, mac overlay.MAC, addrs []netip.Addr) error
	}
)
