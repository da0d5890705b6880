package egress

import (
	"encoding/json"

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
