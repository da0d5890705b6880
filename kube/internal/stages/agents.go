package stages

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"k8s.io/client-go/rest"

	"github.com/selvage/selvage/kube/internal/containers"
	"github.com/selvage/selvage/kube/internal/stream"
	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/measure"
)

// awaitMost is how long the agent of a container waits for who attaches.
const awaitMost = 2 * time.Minute

// Command is that of a container's agent. instrumentMost is the longest time of an instrument.
func Command(rate int64, instrumentMost time.Duration) []string {
	return []string{"selvage-lab", "agent", fmt.Sprintf("--await=%s", awaitMost), fmt.Sprintf("--max-rate=%d", rate), fmt.Sprintf("--max-time=%s", instrumentMost)}
}

// attachMost is how long it may take until an agent answers.
const attachMost = 30 * time.Second

// Attach opens a session with the agent of a container, which has to be of this program's version. The session has to be closed.
func Attach(ctx context.Context, config *rest.Config, c containers.Container, name, version string) (*agent.Session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, attachMost, fmt.Errorf("its agent did not answer in %s", attachMost))
	defer cancel()
	to, err := stream.Attach(config, c.Namespace, c.Pod, c.Container)
	if err != nil {
		return nil, err
	}
	go func() { _, _ = io.WriteString(to.In, "\n") }() // that somebody is attached; that it cannot be written is the session's end
	s, err := agent.NewSession(ctx, fmt.Sprintf("%s (container %s of pod %s/%s)", name, c.Container, c.Namespace, c.Pod), to, bufio.NewReaderSize(to.Out, 64<<10), to.In)
	if err != nil {
		return nil, err
	}
	if s.Hello.Version != version {
		err := fmt.Errorf("%s: its image has version %s of the lab, this plugin is %s: name the image of this version by --image", s, s.Hello.Version, version)
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Agents are sessions by role.
type Agents map[string]*agent.Session

// Close ends all, and with them the containers' processes.
func (a Agents) Close() error {
	var errs []error
	for _, s := range a {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// Err is why a session has ended, or nil.
func (a Agents) Err() error {
	for _, s := range a {
		if err := s.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Instrument runs one between the places of a stage.
func (a Agents) Instrument(ctx context.Context, s Stage, role measure.Role) (client, server json.RawMessage, err error) {
	far, err := a[s.To].Serve(ctx, role)
	if err != nil {
		return nil, nil, err
	}
	if client, err = a[s.From].Run(ctx, role); err != nil {
		return nil, nil, errors.Join(err, far.End(context.WithoutCancel(ctx)))
	}
	switch role.Instrument {
	case measure.RoleBulk, measure.RoleUDP:
		server, err = far.Collect(ctx)
	default:
		err = far.End(ctx)
	}
	return client, server, err
}

// Offloads are those of the interface by which a place sends to an address.
func (a Agents) Offloads(ctx context.Context, role, place string, to netip.Addr) Offloads {
	o := Offloads{Place: place}
	iface, err := a[role].Route(ctx, to)
	if err == nil {
		o.Interface = iface
		var adapter agent.Adapter
		if adapter, err = a[role].Adapter(ctx, iface); err == nil {
			o.Off = Off(adapter.Features)
		}
	}
	if err != nil {
		o.Error = err.Error()
	}
	return o
}

// Addresses are those of a place's interfaces.
func (a Agents) Addresses(role string) (list []netip.Addr) {
	for _, i := range a[role].Hello.Interfaces {
		for _, text := range i.Addrs {
			if p, err := netip.ParsePrefix(text); err == nil {
				list = append(list, p.Addr().WithZone(""))
			}
		}
	}
	return list
}
