package egress

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	"github.com/selvage/selvage/test/e2e/harness"
)

// translatedBy is a fact: the outside has addresses of the pool at the uplink of an edge. It
// asks where it has none yet; what it has must have been corrected by who owns them now.
func translatedBy(n *harness.EgressNet, number int, addrs ...netip.Addr) {
	n.T.Helper()
	for _, addr := range addrs {
		n.Fact(fmt.Sprintf("the outside has %s at edge%d", addr, number), func() error {
			mac, err := harness.Neighbour(n.Ctx, n.Out, addr)
			if err != nil {
				return errors.Join(err, harness.Ping(n.Ctx, n.Out, addr))
			}
			if mac != harness.UplinkMAC(number) {
				return errors.New("it has it at " + mac)
			}
			return nil
		})
	}
}

// answers asks an edge of a number for a document.
func answers[T any](n *harness.Hub, number int, command ...string) (d T, err error) {
	text, err := n.Command(number, append(command, "-o", "json")...)
	if err == nil {
		err = json.Unmarshal([]byte(text), &d)
	}
	return d, err
}
