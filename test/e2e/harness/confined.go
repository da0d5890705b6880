package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Confine has edges that Start runs from now on have no more capabilities than the systemd unit, and so the chart, give
// them. root is the folder of the repository.
func Confine(n *Network, root string) {
	n.T.Helper()
	unit, err := os.ReadFile(filepath.Join(root, "deploy/systemd/selvage@.service"))
	n.Must(err)
	set := regexp.MustCompile(`(?m)^CapabilityBoundingSet=(.+)$`).FindSubmatch(unit)
	if set == nil {
		n.T.Fatal("the unit has no CapabilityBoundingSet=")
	}
	caps := strings.Fields(strings.ToLower(strings.ReplaceAll(string(set[1]), "CAP_", "+")))
	script := fmt.Sprintf("#!/bin/sh\nexec setpriv --no-new-privs --bounding-set=-all,%s %s \"$@\"\n", strings.Join(caps, ","), Program)
	n.confined = filepath.Join(n.Dir, "confined")
	n.Must(os.WriteFile(n.confined, []byte(script), 0o700))
}
