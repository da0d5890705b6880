package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// DocumentOf is a fact: what a command, run by says, prints as JSON is a T that check finds right.
func DocumentOf[T any](n *Network, says func(args ...string) (string, error), command []string, check func(T) bool) {
	n.T.Helper()
	n.Fact(strings.Join(command, " ")+" -o json is right", func() error {
		out, err := says(append(command, "-o", "json")...)
		if err != nil {
			return err
		}
		var d T
		decoder := json.NewDecoder(strings.NewReader(out))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&d); err != nil {
			return err
		}
		if !check(d) {
			return errors.New(out)
		}
		return nil
	})
}

// Sub is the hub in a subtest.
func (n *Hub) Sub(t *testing.T) *Hub {
	sub := *n
	sub.Network = n.In(t)
	return &sub
}

// Asks runs a command about the edge on edge1.
func (n *Hub) Asks(args ...string) (string, error) {
	argv := append(append([]string{Program}, args...), "--edge", n.Edges["edge1"].Name)
	text, err := n.Hosts[0].Output(n.Ctx, argv...)
	return string(text), err
}

// Prints is a fact: a command prints lines with all these words in this order.
func (n *Hub) Prints(command []string, lines ...string) {
	n.T.Helper()
	n.Fact(strings.Join(command, " ")+" prints", func() error {
		text, err := n.Asks(command...)
		words := strings.Join(strings.Fields(text), " ")
		for _, line := range lines {
			if !strings.Contains(words, line) {
				err = errors.Join(err, fmt.Errorf("no %q in\n%s", line, text))
			}
		}
		return err
	})
}

// Command runs one about the edge of a number, on its host.
func (n *Hub) Command(number int, args ...string) (string, error) {
	h := n.Hosts[number-1]
	out, err := h.Output(context.WithoutCancel(n.Ctx), append(append([]string{Program}, args...), "--edge", n.Edges[h.Name].Name)...)
	return string(out), err
}
