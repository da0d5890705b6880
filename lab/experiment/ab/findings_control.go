package ab

import (
	"strings"
)

// control says what fed the tunnels, where something did.
func (e evidence) control() []string {
	text := e.Parameters["control"]
	if !strings.HasPrefix(text, "BGP") {
		return nil
	}
	return []string{"Control plane: " + text + ". Plain routing has static routes and no tunnel, so it needs no control plane."}
}
