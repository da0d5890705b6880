package firewall

import (
	"fmt"

	"github.com/selvage/selvage/test/e2e/harness"
)

// gets is a fact: a client sees this of a service, over both families.
func gets(n *harness.Network, from harness.Guest, network string, to harness.Guest, port int, want harness.Outcome) {
	n.T.Helper()
	for _, family := range []int{4, 6} {
		n.Once(fmt.Sprintf("%s port %d of %s, IPv%d, is %s to %s", network, port, to.Name, family, want, from.Name), func() error {
			return harness.Meets(from, network, to.Addr(family), port, want)
		})
	}
}
