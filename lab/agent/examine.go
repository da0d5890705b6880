package agent

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/doctor"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/lab/result"
)

// Requests of an examination.
const (
	opExamine = "examine"
	opRoute   = "route"
)

type routeRequest struct {
	Addr netip.Addr `json:"addr"`
}

// routeAnswer is the interface by which the kernel's route leaves.
type routeAnswer struct {
	Interface string `json:"interface"`
}

// route asks the kernel for the way to an address.
func route(q routeRequest) (routeAnswer, error) {
	survey, err := host.OpenSurvey()
	if err != nil {
		return routeAnswer{}, err
	}
	defer survey.Close()
	if _, err := survey.Devices(); err != nil {
		return routeAnswer{}, err
	}
	paths, err := survey.Paths(q.Addr, netip.Addr{})
	if err != nil {
		return routeAnswer{}, err
	}
	if len(paths) == 0 {
		return routeAnswer{}, fmt.Errorf("there is no route to %s", q.Addr)
	}
	return routeAnswer{paths[0].Interface}, nil
}

// Route is the interface by which packets from the place to an address leave.
func (s *Session) Route(ctx context.Context, addr netip.Addr) (iface string, err error) {
	var answer routeAnswer
	err = s.call(ctx, opRoute, routeRequest{addr}, &answer)
	return answer.Interface, err
}

// examine looks at the agent's host, which it does not change.
func (a *agent) examine() (doctor.Examination, error) {
	return doctor.ExamineHost(a.ctx, doctor.Options{RuntimeDir: api.DefaultRuntimeDir})
}

// Place is the session's, for a result.
func (s *Session) Place(role string, clock Clock) result.Place {
	h := s.Hello
	return result.Place{
		Role: role, Name: s.name, Machine: h.Machine, Host: h.Name, Kernel: h.Kernel, Arch: h.Arch, Cores: h.Cores, Clock: clock.String(),
	}
}

// Examine has the place looked at: what is wrong with it, and the facts by which it is compared with others. It needs no
// root; what root alone may read is unknown then.
func (s *Session) Examine(ctx context.Context) (e doctor.Examination, err error) {
	err = s.call(ctx, opExamine, nil, &e)
	e.Facts.Place = s.name
	return e, err
}
