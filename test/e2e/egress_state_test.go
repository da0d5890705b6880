package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/selvage/selvage/internal/edge"
)

// command runs one about the edge of a number, on its host.
func (n *hub) command(number int, args ...string) (string, error) {
	h := n.hosts[number-1]
	out, err := h.Output(context.WithoutCancel(n.ctx), append(append([]string{program}, args...), "--edge", n.edges[h.Name].Name)...)
	return string(out), err
}

// answers asks an edge of a number for a document.
func answers[T any](n *hub, number int, command ...string) (d T, err error) {
	text, err := n.command(number, append(command, "-o", "json")...)
	if err == nil {
		err = json.Unmarshal([]byte(text), &d)
	}
	return d, err
}

// serving is a fact: every edge says of these gateways that they serve, and of no others.
func (n *egressNet) serving(numbers ...int) {
	n.t.Helper()
	for i := range n.hosts {
		n.fact(fmt.Sprintf("to edge%d gateways %v serve", i+1, numbers), func() error { return n.has(i+1, numbers) })
	}
}

// has is nil when these gateways serve in the eyes of an edge.
func (n *egressNet) has(number int, want []int) error {
	info, err := answers[edge.EgressInfo](n.hub, number, "egress")
	if err != nil {
		return err
	}
	for _, group := range info.Groups {
		for _, m := range group.Members {
			gateway := slices.Index(n.teps, m.Address) + 1
			if serves := m.Standing == "serving"; serves != slices.Contains(want, gateway) {
				err = errors.Join(err, fmt.Errorf("edge%d is %s: %s", gateway, m.Standing, m.Why))
			}
		}
	}
	if len(info.Groups) == 0 {
		err = errors.New("it has no gateways")
	}
	return err
}
