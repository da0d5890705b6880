package experiments

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/rfc2544"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/sizing"
	"github.com/selvage/selvage/lab/stats"
)

// Size is the command line that turns a demand into cores, ports, slots and edges.
type Size struct {
	Gbps  float64 `required:"" placeholder:"RATE" help:"Demand in Gbit/s on the wire of the uplinks, all edges together."`
	Frame int     `default:"512" placeholder:"BYTES" help:"Size of a frame before the tunnel, with FCS; ${default}."`

	From        string  `placeholder:"FILE" type:"existingfile" help:"Result of selvage lab rfc2544 on a host like those to be bought: the rate per core."`
	Target      string  `default:"selvage" help:"Target whose rate to take from the result; ${default}."`
	MppsPerCore float64 `placeholder:"RATE" help:"Rate of one core in million packets a second, instead of --from."`

	Encap  overlay.Encapsulation `enum:"vxlan,geneve,nvgre" default:"vxlan" help:"Encapsulation: ${enum}."`
	Family int                   `enum:"4,6" default:"4" help:"IP version of the underlay: ${enum}."`

	CoresPerHost int     `group:"Host" default:"32" help:"Cores of one host; ${default}. Half are for the datapath."`
	Ports        int     `group:"Host" default:"2" help:"Network ports of one host, half for uplinks; ${default}."`
	PortGbps     float64 `group:"Host" default:"100" placeholder:"RATE" help:"Gbit/s of one port; ${default}."`
	Pcie         string  `group:"Host" default:"gen4x16" placeholder:"SLOT" help:"Generation and lanes of a PCIe slot; ${default}."`
	Slots        int     `group:"Host" default:"2" help:"PCIe slots with network cards, half for uplinks; ${default}."`

	Load  float64 `group:"Plan" default:"80" placeholder:"PERCENT" help:"Share of the measured rate to plan with, in percent; ${default}."`
	Spare int     `group:"Plan" default:"1" help:"Edges beyond what the demand needs; ${default}."`

	Output string `short:"o" enum:"table,json" default:"table" help:"Print a table or JSON: ${enum}."`
}

// Validate checks that there is exactly one source of the rate per core.
func (c *Size) Validate() error {
	switch {
	case c.From == "" && c.MppsPerCore == 0:
		return errors.New("--from or --mpps-per-core: one is needed, since the rate per core must be measured (selvage lab rfc2544)")
	case c.From != "" && c.MppsPerCore != 0:
		return errors.New("--from and --mpps-per-core: give one of them")
	}
	return nil
}

// Run reckons and prints.
func (c *Size) Run(console *experiment.Console) error {
	bus, err := sizing.FindBus(c.Pcie)
	if err != nil {
		return fmt.Errorf("--pcie: %w", err)
	}
	cost := sizing.Cost{MppsPerCore: c.MppsPerCore, Source: "--mpps-per-core"}
	if c.From != "" {
		if cost, err = c.cost(); err != nil {
			return err
		}
	}
	demand := sizing.Demand{Gbits: c.Gbps, Frame: c.Frame, Overhead: c.Encap.Overhead(anyAddress(c.Family))}
	host := sizing.Host{Cores: c.CoresPerHost, Ports: c.Ports, PortRate: c.PortGbps, Slots: c.Slots, Bus: bus}
	plan, err := sizing.Size(demand, host, cost, sizing.Use{Share: c.Load / 100, Spare: c.Spare})
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return printPlan(console.Out, plan)
	}
	return c.table(console.Out, plan)
}

func (c *Size) cost() (sizing.Cost, error) {
	r, err := result.ReadFile(c.From)
	if err != nil {
		return sizing.Cost{}, err
	}
	cost, err := rfc2544.From(r, c.Target, c.Frame)
	if err != nil {
		return sizing.Cost{}, fmt.Errorf("--from %s: %w", c.From, err)
	}
	return cost, nil
}

// anyAddress is some address of a family.
func anyAddress(family int) netip.Addr {
	if family == 6 {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

func printPlan(w io.Writer, plan sizing.Plan) error {
	out, err := json.MarshalIndent(plan, "", "  ")
	if err != nil {
		return fmt.Errorf("write plan: %w", err)
	}
	_, err = fmt.Fprintln(w, string(out))
	return err
}

func (c *Size) table(w io.Writer, p sizing.Plan) error {
	var b strings.Builder
	line := func(name, value, note string) {
		b.WriteString(strings.TrimRight(fmt.Sprintf("  %-18s %10s  %s", name, value, note), " ") + "\n")
	}
	fmt.Fprintf(&b, "%s Gbit/s in frames of %d bytes\n", stats.Figure(c.Gbps), c.Frame)
	line("packets", stats.Figure(p.Mpps), "Mpps")
	line("in the tunnel", fmt.Sprint(p.FrameOut), fmt.Sprintf("bytes a frame (%s on IPv%d), %s Gbit/s on the wire", c.Encap, c.Family, stats.Figure(p.Egress)))
	fmt.Fprintf(&b, "\nneeds\n")
	line("edges", fmt.Sprint(p.Edges), fmt.Sprintf("%d of them spare; limited by: %s", p.Spare, p.Limiter))
	line("ECMP groups", fmt.Sprint(p.Groups), "")
	line("clusters", fmt.Sprint(p.Clusters), "")
	line("datapath cores", fmt.Sprint(p.Cores), fmt.Sprintf("in all, %d of the %d of each edge", p.PathCores, p.HostCores))
	line("ports", fmt.Sprint(p.Uplinks+p.Underlays), fmt.Sprintf("of each edge: %d for uplinks, %d for the underlay", p.Uplinks, p.Underlays))
	line("PCIe slots", fmt.Sprint(p.Slots), "of each edge")
	fmt.Fprintf(&b, "\none edge carries, in Gbit/s of the demand\n")
	for _, l := range p.EdgeLimits {
		line("by "+string(l.By), stats.Figure(l.Gbits), l.How)
	}
	fmt.Fprintf(&b, "\nrules\n")
	for _, r := range p.Rules {
		fmt.Fprintf(&b, "  %s (%s)\n", r.Text, r.Source)
	}
	for _, note := range p.Notes {
		fmt.Fprintf(&b, "\n%s\n", note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
