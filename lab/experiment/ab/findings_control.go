package ab

import (
	"strings"

	"github.com/selvage/selvage/lab/result"
)

// control says what fed the tunnels, where something did.
func (e evidence) control() []result.Finding {
	text := e.Parameters["control"]
	if !strings.HasPrefix(text, "BGP") {
		return nil
	}
	return []result.Finding{{Topic: "Control plane", Text: text + ". Plain routing has static routes and no tunnel, so it needs no control plane."}}
}
