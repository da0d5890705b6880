package egress

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/selvage/selvage/internal/edge"
	"github.com/selvage/selvage/test/e2e/harness"
)

// answers asks an edge of a number for a document.
func answers[T any](n *harness.Hub, number int, command ...string) (d T, err error) {
	text, err := n.Command(number, append(command, "-o", "json")...)
	if err == nil {
		err = json.Unmarshal([]byte(text), &d)
	}
	return d, err
}

// serving is a fact: every edge says of these gateways that they serve, and of no others.
func serving(n *harness.EgressNet, numbers ...int) {
	n.T.Helper()
	for i := range n.Hosts {
		n.Fact(fmt.Sprintf("to edge%d gateways %v serve", i+1, numbers), func() error { return has(n, i+1, numbers) })
	}
}

// has is nil when these gateways serve in the eyes of an edge.
func has(n *harness.EgressNet, number int, want []int) error {
	info, err := answers[edge.EgressInfo](n.Hub, number, "egress")
	if err != nil {
		return err
	}
	for _, group := range info.Groups {
		for _, m := range group.Members {
			gateway := slices.Index(n.Teps, m.Address) + 1
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
