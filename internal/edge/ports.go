package edge

// loopPorts are the ports of an edge that its goroutine probes for loops, and its writer cuts off.
type loopPorts struct{ e *edge }

func (p loopPorts) ProbeLoops() error { return p.e.state.dp.HostEvents.ProbeLoops() }

// CutPorts is done before what the writer is about to write.
func (p loopPorts) CutPorts(names map[string]bool) (err error) {
	p.e.state.mu.Lock()
	defer p.e.state.mu.Unlock()
	p.e.writer.Urgent(func() { err = p.e.state.dp.Ports.CutPorts(names) })
	return err
}
