package preflight

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/doctor"
	"github.com/selvage/selvage/internal/doctor/compare"
	"github.com/selvage/selvage/internal/doctor/facts"
	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/measure"
)

const (
	// mostPaths is how many are probed.
	mostPaths = 64
	// flows are the source ports that are probed.
	flows = 4
	// probeTime is more than a search takes without any answer.
	probeTime = 10 * time.Second
)

// probe finds the largest packet that arrives on each path between two hosts, one path at a time. Paths that cannot be
// probed say so; the error is of a connection that was lost.
func probe(ctx context.Context, sessions []*agent.Session, hosts []Host, f doctor.HostFlags, log io.Writer) ([]compare.Path, error) {
	paths := []compare.Path{}
	for _, addr := range f.Probe {
		if !slices.ContainsFunc(hosts, func(h Host) bool { return mtuAt(&h.Facts, addr) > 0 }) {
			return nil, UsageError{fmt.Errorf("--probe: none of the hosts has the address %s", addr)}
		}
	}
	for i := range hosts {
		for j := range hosts {
			if i == j {
				continue
			}
			for _, addr := range targets(&hosts[i], &hosts[j], f.Probe) {
				if len(paths) == mostPaths {
					fmt.Fprintf(log, "only the first %d paths are probed: choose others with --probe\n", mostPaths)
					return paths, nil
				}
				p := compare.Path{From: hosts[i].Place, To: hosts[j].Place, Addr: addr, FarMTU: mtuAt(&hosts[j].Facts, addr)}
				if err := probePath(ctx, sessions[i], sessions[j], &hosts[i].Facts, f.Port, &p); err != nil {
					p.Error = err.Error()
				}
				if ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				for _, s := range []*agent.Session{sessions[i], sessions[j]} {
					if err := s.Err(); err != nil {
						return nil, err
					}
				}
				paths = append(paths, p)
			}
		}
	}
	return paths, nil
}

// targets are the addresses of a host that are probed from another: those that were asked for, or else those in a
// subnet of both, and those that its tunnels have as remotes.
func targets(from, to *Host, wanted []netip.Addr) (found []netip.Addr) {
	for _, i := range to.Facts.Interfaces {
		for _, q := range i.Addrs {
			addr := q.Addr()
			probed := slices.Contains(wanted, addr)
			if len(wanted) == 0 && i.Up {
				probed = shares(&from.Facts, q) || isRemote(from, addr)
			}
			if probed && !slices.Contains(found, addr) {
				found = append(found, addr)
			}
		}
	}
	return found
}

// mtuAt is the MTU of the interface that has an address, 0 when none has.
func mtuAt(h *facts.Host, addr netip.Addr) int {
	for _, i := range h.Interfaces {
		if slices.ContainsFunc(i.Addrs, func(p netip.Prefix) bool { return p.Addr() == addr }) {
			return i.MTU
		}
	}
	return 0
}

func shares(h *facts.Host, q netip.Prefix) bool {
	return slices.ContainsFunc(h.Interfaces, func(i facts.Interface) bool {
		return i.Up && slices.ContainsFunc(i.Addrs, func(p netip.Prefix) bool { return facts.Neighbours(p, q) })
	})
}

func isRemote(h *Host, addr netip.Addr) bool {
	return slices.ContainsFunc(h.Report.Inventory.Tunnels, func(t doctor.Tunnel) bool { return slices.Contains(t.Remotes, addr) })
}

func probePath(ctx context.Context, from, to *agent.Session, h *facts.Host, port int, p *compare.Path) (err error) {
	if p.Interface, err = from.Route(ctx, p.Addr); err != nil {
		return err
	}
	i, known := h.Interface(p.Interface)
	if !known {
		return fmt.Errorf("packets to %s leave by %s, which is not a link of a network", p.Addr, p.Interface)
	}
	p.MTU = i.MTU
	role := measure.Role{Instrument: measure.RoleSize, Addr: p.Addr, Port: port, Duration: probeTime, Size: p.MTU, Flows: flows}
	server, err := to.Serve(ctx, role)
	if err != nil {
		return err
	}
	answer, err := from.Run(ctx, role)
	if err := errors.Join(err, server.End(ctx)); err != nil {
		return err
	}
	found, err := measure.ReadSize(answer)
	if err != nil {
		return err
	}
	p.Largest = p.MTU
	for _, f := range found.Flows { // what all of them pass: a path by ECMP has several ways
		p.Largest = min(p.Largest, f.Largest)
		if f.Reported > 0 && (p.Reported == 0 || f.Reported < p.Reported) {
			p.Reported = f.Reported
		}
	}
	if p.Largest == 0 {
		return fmt.Errorf("no probe to %s, UDP port %d, was answered: a firewall on the way, or no route back", p.Addr, port)
	}
	return nil
}
