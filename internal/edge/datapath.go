package edge

import (
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
)

// Data paths as the edge sees them. An edge never calls two methods at once,
// except those of Reader.
type (
	// DataPath is the forwarding plane of one edge.
	DataPath interface {
		Writer
		Reader
		Owner
	}
	// Writer changes what the data path does.
	Writer interface {
		Apply(t datapath.Tables) error
		Age(ageing time.Duration) (aged int, err error)
	}
	// Reader says what the data path did.
	Reader interface {
		FDB() ([]datapath.FDBEntry, error)
		Flows() ([]datapath.Flow, error)
		Drops() ([]datapath.Drop, error)
		Ports() (map[string]datapath.PortCounters, error)
		TEPs() (map[netip.Addr]datapath.TEPCounters, error)
		Stats() (datapath.Stats, error)
	}
	// Owner ends the data path (Remove) or only its handles (Close).
	Owner interface {
		Adopted() bool
		Remove() error
		Close() error
	}
)

// Host is the operating system as the edge sees it.
type Host interface {
	Observe(want host.Want) (host.View, error)
	Hold(want host.Holds) error
	Changed() <-chan struct{}
	Close() error
}

func openDataPath(cfg datapath.Config) (DataPath, error) {
	d, err := datapath.Open(cfg)
	if err != nil {
		return nil, err // not d: a nil pointer would be a DataPath that is not nil
	}
	return d, nil
}

func openHost(recordPath string, log *slog.Logger) (Host, error) {
	h, err := host.Open(recordPath, log)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// dataPathConfig is the part of e that needs programs to be loaded anew when it changes.
func dataPathConfig(e overlay.Edge, pinRoot string) datapath.Config {
	cfg := datapath.Config{
		Name: e.Name, TEP: e.Underlay.TEP, FlowCache: e.FlowCache, FDB: e.FDB, PinRoot: pinRoot,
	}
	for _, s := range e.Segments {
		cfg.UDPPorts = append(cfg.UDPPorts, s.UDPPort)
	}
	slices.Sort(cfg.UDPPorts)
	cfg.UDPPorts = slices.Compact(cfg.UDPPorts)
	return cfg
}
