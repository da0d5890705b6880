package underlay

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/offload"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/tier"
)

const offloadPicture = `
   edge1 ── e1 switch e2 ── edge2      each probes the other's offloads`

// probing is two edges that probe each other and set what is best.
type probing struct{ *harness.Hub }

func newProbing(t *testing.T, family int) *probing {
	t.Helper()
	n := &probing{harness.NewUnderlay(t, offloadPicture, 2, family)}
	for i := range 2 {
		n.up(i)
	}
	return n
}

func (n *probing) up(i int) *dut.Edge {
	n.T.Helper()
	h := n.Hosts[i]
	return n.Start(h, dut.EdgeName(h), fmt.Sprintf(`apiVersion: selvage.dev/v1alpha2
kind: Edge
metadata: {name: %s}
spec:
  underlay: {interfaces: [%s], tep: %q, offloadProbe: {apply: true}}
  segments: [{name: blue, vni: 100, remotes: [%q]}]
`, dut.EdgeName(h), topo.UnderlayName, n.Teps[i], n.Teps[1-i]))
}

// result is what an edge knows of its path.
func (n *probing) result(i int) (*api.OffloadInfo, error) {
	list, err := n.Ask(n.Hosts[i].Name).TEPs(n.Ctx)
	switch {
	case err != nil:
		return nil, err
	case len(list) != 1 || len(list[0].Paths) != 1 || list[0].Paths[0].Offload == nil:
		return nil, fmt.Errorf("no probed path: %+v", list)
	}
	return list[0].Paths[0].Offload, nil
}

// segmentation is the feature that matters most.
const segmentation = "tx-udp_tnl-segmentation"

func (n *probing) segments(i int) bool {
	n.T.Helper()
	features, err := n.Hosts[i].Features(topo.UnderlayName)
	n.Must(err)
	return features[segmentation]
}

// probed waits until an edge has done the probe that it begins with.
func (n *probing) probed(i int) {
	n.T.Helper()
	n.Fact(fmt.Sprintf("edge%d has probed its path", i+1), func() error {
		o, err := n.result(i)
		if err == nil && (o.Mode == "" || o.Pending) {
			err = fmt.Errorf("not yet: %s", o.Why)
		}
		return err
	})
}

// TestEdgesProbeOffloads: both probe by themselves at start, one at a time, and find the
// veth's own offloads right.
func TestEdgesProbeOffloads(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			if family == 4 {
				tier.Long(t, "TestEdgesProbeOffloads/IPv6; over IPv4 TestEdgeCuresBrokenOffload")
			}
			t.Parallel()
			n := newProbing(t, family)
			for i := range 2 {
				n.probed(i)
				n.Fact(fmt.Sprintf("edge%d found its path right", i+1), func() error {
					o, err := n.result(i)
					switch {
					case err != nil:
						return err
					case o.Wrong || len(o.Trials) < 3 || o.Identity.Name != "veth" || o.Identity.Kernel == "":
						return fmt.Errorf("an odd result: %+v", o)
					}
					return nil
				})
			}
		})
	}
}

// TestEdgeFixesBrokenOffload has the network damage what was not cut before: the edge finds
// that, cures it, says so, keeps it while it runs, and restores the interface when it ends.
func TestEdgeFixesBrokenOffload(t *testing.T) {
	t.Parallel()
	n := newProbing(t, 4)
	first := n.Hosts[0]
	rules := filepath.Join(t.TempDir(), "fault.nft")
	n.Must(os.WriteFile(rules, []byte(`table netdev fault {
	chain in {
		type filter hook ingress device "e1" priority 0;
		udp dport 4789 meta length > 2000 @th,1600,8 set 0x5a
	}
}
`), 0o600))
	_, err := n.Sw.Output(n.Ctx, "nft", "-f", rules)
	n.Must(err)

	n.probed(0)
	n.probed(1)
	text := n.selvage("offload", "probe", "--yes", n.Teps[1].String(), "--edge", dut.EdgeName(first))
	if !strings.Contains(text, "damaged") || !strings.Contains(text, "IN-FORCE") {
		t.Errorf("the table does not say what was found:\n%s", text)
	}
	o, err := n.result(0)
	n.Must(err)
	if o.Mode == offload.AsIs || o.Wrong || !o.Applied || n.segments(0) && o.Mode == offload.NoTunnelSegmentation {
		t.Fatalf("want another mode in force, not %s (%s), applied: %v", o.Mode, o.Why, o.Applied)
	}
	list := []api.TEPInfo{}
	if err := json.Unmarshal([]byte(n.selvage("teps", "-o", "json", "--edge", dut.EdgeName(first))), &list); err != nil || list[0].Paths[0].Offload.Mode != o.Mode {
		t.Errorf("JSON says otherwise: %v %+v", err, list)
	}

	was := o.When
	n.Must(n.Edges[first.Name].Stop(n.Ctx))
	n.Once("the ended edge leaves the interface as it was", func() error {
		if features, err := first.Features(topo.UnderlayName); err != nil || !features[segmentation] || !features["tx-checksum-ip-generic"] {
			return errors.Join(err, errors.New("an offload stayed off"))
		}
		return nil
	})
	n.up(0)
	n.Fact("the next process takes the result over", func() error {
		o, err := n.result(0)
		if err != nil {
			return err
		}
		if !o.When.Equal(was) || !o.Applied || o.Mode == offload.AsIs {
			return fmt.Errorf("%s of %s, applied: %v", o.Mode, o.When, o.Applied)
		}
		return nil
	})
	n.Once("and sets it", func() error {
		if features, err := first.Features(topo.UnderlayName); err != nil || features[segmentation] && features["tx-checksum-ip-generic"] {
			return errors.Join(err, errors.New("all offloads are on"))
		}
		return nil
	})
}

// selvage runs the program, whose edges all answer on this machine.
func (n *probing) selvage(args ...string) string {
	n.T.Helper()
	out, err := exec.CommandContext(n.Ctx, harness.Program, args...).CombinedOutput()
	if err != nil {
		n.Fail("selvage "+strings.Join(args, " "), fmt.Errorf("%w: %s", err, out))
	}
	return string(out)
}
