package edge

import (
	"github.com/selvage/selvage/internal/offload/schedule"
	"github.com/selvage/selvage/internal/plan"
)

func newOffloads(e *edge) *schedule.Probes {
	return schedule.New(schedule.Options{Edge: probedEdge{e}, Log: e.log, Report: e.faults.Report, HostFault: changeHost})
}

// probedEdge lends an edge to those that probe its offloads.
type probedEdge struct{ e *edge }

func (p probedEdge) Snapshot() schedule.Snapshot {
	p.e.state.mu.RLock()
	defer p.e.state.mu.RUnlock()
	return schedule.Snapshot{Config: p.e.state.config, Host: p.e.state.hostState, MTUs: p.e.mtus.Applied()}
}

func (p probedEdge) SetOffloads() error {
	_, err := inLoop(p.e.jobs, func() (struct{}, error) { return struct{}{}, p.ensure() })
	return err
}

func (p probedEdge) Enter() error { return p.e.ns.Enter() }

// ensure makes the offloads be as wanted. It is done by the goroutine of Run.
func (p probedEdge) ensure() error {
	e := p.e
	holds := plan.HostConfig(e.state.config, e.state.hostState)
	holds.ChecksumDevices = append(holds.ChecksumDevices, unwanted(holds, e.state.hostState)...)
	holds.Offloads = e.offloads.Wanted(e.state.config.Underlay.OffloadProbe)
	return e.host.Ensure(holds)
}

// endTrial restores what a probe set that was cut short, when the loop has ended.
func (p probedEdge) endTrial() {
	p.e.offloads.EndTrial()
	p.e.faults.Report(changeHost, p.ensure())
}
