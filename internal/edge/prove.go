package edge

import (
	"time"

	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/prove"
	"github.com/selvage/selvage/internal/prove/proof"
)

// provenEdge lends an edge to those that prove that it works.
type provenEdge struct{ e *edge }

func (p provenEdge) Facts() (f proof.Facts, err error) {
	if b := p.e.bgp.Process(); b != nil {
		f.Advertised = b.State().Statuses()
	}
	return read(&p.e.state, "proof", func() (proof.Facts, error) {
		f.Config, f.Host, f.Self, f.Routes = p.e.state.config, p.e.state.hostState, gateway.Self(p.e.state.config), p.e.writer.Routes()
		known, err := p.e.mtus.Read(p.e.state.dp.Paths)
		if err != nil {
			return f, err
		}
		lives := p.e.liveness.Results()
		for _, path := range p.e.writer.InForce().Paths.PathPolicies.Paths {
			f.Paths = append(f.Paths, proof.Path{
				TunnelPath: path, Life: lives[path.Pair].State, EndpointLife: lives[path.Endpoints()].State, MTUState: known.State(path.Endpoints()),
			})
		}
		if f.Neighbours, err = p.e.state.dp.Hosts.Neighbours(); err != nil {
			return f, err
		}
		f.FDB, err = p.e.state.dp.Hosts.FDB()
		return f, err
	})
}

// Open has the sockets opened by the goroutine of Run, for its network namespace.
func (p provenEdge) Open(tunnels []prove.Tunnel, timeout time.Duration) (*prove.Prober, error) {
	return inLoop(p.e.jobs, func() (*prove.Prober, error) {
		o := prove.Options{MAC: prove.MAC(gateway.Self(p.e.state.config)), Timeout: timeout}
		for _, name := range p.e.state.config.Underlay.Interfaces {
			if link, ok := p.e.state.hostState.Links[name]; ok && link.Up {
				o.Interfaces = append(o.Interfaces, link.Index)
			}
		}
		return prove.Open(o, tunnels)
	})
}
