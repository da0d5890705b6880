package edge

import (
	"strings"
)

// isPort reports whether name is the port of a query, or one of its VLANs.
func isPort(name, wanted string) bool {
	vlan, isVLAN := strings.CutPrefix(name, wanted)
	return isVLAN && (vlan == "" || vlan[0] == '.')
}
