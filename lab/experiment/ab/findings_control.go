package ab

import (
	"github.com/selvage/selvage/lab/result"
)

// control says what fed the tunnels, where something did.
func (e evidence) control() []result.Finding {
	control := e.Parameters[controlPlane]
	if control.Value != result.Text(evpn) {
		return nil
	}
	return []result.Finding{{Topic: "Control plane", Text: control.Explanation + ". Plain routing has static routes and no tunnel, so it needs no control plane."}}
}
