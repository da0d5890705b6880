package ops

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// selvage top in a terminal that script(1) makes: pages of a real edge, and an end by the key for it.
func TestTop(t *testing.T) {
	t.Parallel()
	n := harness.NewTwoHosts(t, topo.TwoHostsOptions{})
	n.BuildRecorded(n.SelvageHalf(), n.SelvageHalf())
	n.Pings(n.Directions(4)...)
	n.StopCaptures()
	n.Fact("top shows ports, remotes and flows", func() error {
		// Keys are pressed when there was time to read a page; on a busy machine it is tried again.
		keys := "sleep 1; printf 2; sleep 1; printf 3; sleep 2; printf q"
		c := n.A.Command(n.Ctx, "sh", "-c", topCommand(keys, "--edge "+n.Edges["hosta"].Name))
		out, err := c.Output()
		return onScreen(out, err, "PORT", "p0", "REMOTE", "192.0.2.2", "resolved", "DESTINATION", topo.ServerV4.String())
	})
}

// topCommand is selvage top in a terminal that script(1) makes, with keys that commands of a shell print.
func topCommand(keys, flags string) string {
	line := fmt.Sprintf("stty cols 150 rows 30; exec %s top --interval 100ms %s", harness.Program, flags)
	return fmt.Sprintf("(%s) | TERM=xterm script -qefc '%s' /dev/null", keys, line)
}

// onScreen is nil where a terminal has shown all words.
func onScreen(out []byte, err error, words ...string) error {
	screen := regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`).ReplaceAll(out, []byte(" "))
	for _, want := range words {
		if err == nil && !bytes.Contains(screen, []byte(want)) {
			err = fmt.Errorf("no %q on the screen: %s", want, strings.Join(strings.Fields(string(screen)), " "))
		}
	}
	return err
}
