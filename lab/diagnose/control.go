package diagnose

import "strings"

// control says what fed the tunnels, where something did.
func (e evidence) control() []string {
	said := e.Parameters["control"]
	if !strings.HasPrefix(said, "BGP") {
		return nil
	}
	return []string{"Control plane: " + said + ". Plain routing has static routes, and no tunnel that something could be told of."}
}
