package libvirt

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

const picture = `
                  switch
              e1 /      \ e2
            edge1        edge2
        web1 |            | r0
   (a tap of a guest)    blue2  10.0.0.2, fd00::2
   10.0.0.1, fd00::1`

const folder = "../../../deploy/libvirt/"

// spec has no port but blue2's: the others come by the hook.
const spec = `
  segments:
  - {name: blue, vni: 100, remotes: REMOTES}
`

// host is two edges, and a guest behind the second.
type host struct {
	*harness.Hub
	blue2 harness.Guest
	state string
}

func newHost(t *testing.T) *host {
	t.Helper()
	n := &host{Hub: harness.NewUnderlay(t, picture, 2, 4), state: t.TempDir()}
	n.blue2 = n.Guest("blue2", 0, 2, n.Hosts[1], "r0", 1450)
	n.EdgesUp(spec, spec+"  ports: [{name: r0, interface: r0, segment: blue}]\n")
	return n
}

// domain is what libvirt passes to the hook, for this edge.
func (n *host) domain(change ...string) string {
	n.T.Helper()
	text, err := os.ReadFile("testdata/start.xml")
	n.Must(err)
	change = append(change, "<selvage:port mac=", fmt.Sprintf("<selvage:port edge=%q mac=", n.Edges["edge1"].Name))
	return strings.NewReplacer(change...).Replace(string(text))
}

// environment of the hook: selvage is in its PATH.
func (n *host) environment() []string {
	return []string{"PATH=" + filepath.Dir(harness.Program) + ":" + os.Getenv("PATH"), "SELVAGE_LIBVIRT_STATE=" + n.state, "SELVAGE_PROGRAM=" + harness.Program}
}

// calls the hook as libvirt does.
func (n *host) calls(xml string, words ...string) error {
	c := n.Hosts[0].Command(n.Ctx, append([]string{folder + "qemu"}, words...)...)
	c.Env, c.Stdin = n.environment(), strings.NewReader(xml)
	var out bytes.Buffer
	c.Stdout = &out
	if err := c.Run(); err != nil {
		return err
	}
	if out.Len() > 0 { // libvirt would take that for the domain
		return fmt.Errorf("it printed %s", out.Bytes())
	}
	return nil
}

// ports are the names of the first edge's.
func (n *host) ports() (names []string, err error) {
	ports, err := n.Ask("edge1").Ports(n.Ctx)
	for _, p := range ports {
		names = append(names, p.Name)
	}
	return names, err
}

func (n *host) has(names ...string) {
	n.T.Helper()
	n.Once(fmt.Sprintf("the edge has the ports %v", names), func() error {
		got, err := n.ports()
		if err == nil && !slices.Equal(got, names) {
			err = fmt.Errorf("%v", got)
		}
		return err
	})
}

// The hook gives an edge the tap of a guest that starts, with the guest's addresses, and takes it back.
func TestHook(t *testing.T) {
	t.Parallel()
	n := newHost(t)
	n.Once("libvirt prepares the guest, whose tap is not there yet", func() error { return n.calls(n.domain(), "web1", "prepare", "begin", "-") })
	n.has()
	vm := n.tap("web1")
	n.Once("the guest starts", func() error { return n.calls(n.domain(), "web1", "start", "begin", "-") })
	n.has("web1-0")
	n.Once("libvirt says that it has started", func() error { return n.calls(n.domain(), "web1", "started", "begin", "-") })
	n.Once("libvirtd starts again beside it", func() error { return n.calls(n.domain(), "web1", "reconnect", "begin", "-") })
	n.has("web1-0")
	for _, family := range []int{4, 6} {
		n.Fact(fmt.Sprintf("the guest pings blue2, IPv%d", family), func() error { return harness.Ping(n.Ctx, vm, n.blue2.Addr(family)) })
	}
	n.Once("only its own addresses may be used", func() error {
		n.Must(vm.AddAddr(topo.EndName, netip.MustParsePrefix("10.0.0.66/24")))
		if _, err := vm.Output(n.Ctx, "ping", "-c", "1", "-W", "1", "-I", "10.0.0.66", n.blue2.Addr(4).String()); err == nil {
			return errors.New("another address passes")
		}
		return nil
	})
	n.Once("the guest stops", func() error { return n.calls(n.domain(), "web1", "stopped", "end", "-") })
	n.Once("its resources are released", func() error { return n.calls(n.domain(), "web1", "release", "end", "-") })
	n.has()
	n.Once("nothing is left of it", func() error { return harness.Nothing(filepath.Join(n.state, "*")) })
	n.Once("operations that are none of its own do nothing", func() error {
		return errors.Join(n.calls(n.domain(), "web1", "migrate", "begin", "-"), n.calls("", "web1", "no-such-operation", "begin", "-"))
	})
	t.Run("Refused", func(t *testing.T) { n.refused(t) })
	t.Run("Afterwards", func(t *testing.T) { n.afterwards(t) })
}

// tap makes the tap of a guest in edge1's host, and a host that is the guest.
func (n *host) tap(name string) *topo.Host {
	n.T.Helper()
	vm := n.Host("vm")
	near, err := harness.OpenTap(n.Hosts[0], name, false)
	n.Must(err)
	far, err := harness.OpenTap(vm, topo.EndName, false)
	n.Must(err)
	cable := harness.PlugCable(near, far, false)
	n.T.Cleanup(cable.Unplug)
	n.Must(errors.Join(n.Hosts[0].DisableIPv6(name), n.Hosts[0].Up(name), vm.SetMAC(topo.EndName, net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}),
		vm.AddAddrs(topo.EndName, netip.MustParsePrefix("10.0.0.1/24"), netip.MustParsePrefix("fd00::1/64")), vm.SetMTU(topo.EndName, 1450), vm.Up(topo.EndName)))
	return vm
}

// refused: what is wrong is said, libvirt is told to stop, and nothing is left.
func (n *host) refused(t *testing.T) {
	for _, c := range []struct {
		name, old, now, want string
	}{
		{"Segment", "segment=\"blue\"", "segment=\"green\"", "green"},
		{"NoSegment", " segment=\"blue\"", "", "interface 52:54:00:00:00:01 has no segment"},
		{"NoInterface", "<mac address='52:54:00:00:00:01'/>", "<mac address='52:54:00:00:00:02'/>", "no interface with 52:54:00:00:00:01"},
		{"Bridge", "<interface type='ethernet'>", "<interface type='bridge'>", "is of type bridge"},
		{"NoDevice", "<target dev='web1'/>", "", "has no device yet"},
		{"Address", "<selvage:address>10.0.0.1<", "<selvage:address>10.0.0.1000<", "10.0.0.1000"},
		{"NoAddress", "<selvage:address>10.0.0.1<", "<selvage:address><", "<selvage:address> is empty"},
		{"NoMAC", "<selvage:label name=\"tier\" value=\"web\"/>", "<selvage:mac/>", "<selvage:mac> is empty"},
		{"NoVLAN", "<selvage:label name=\"tier\" value=\"web\"/>", "<selvage:vlan id=\"\" segment=\"blue\"/>", "<selvage:vlan> has no id="},
		{"WordForVLAN", "<selvage:label name=\"tier\" value=\"web\"/>", "<selvage:vlan id=\"x\" segment=\"blue\"/>", "VLAN 'x' is not a number"},
		{"NoLabel", "<selvage:label name=\"tier\" value=\"web\"/>", "<selvage:label value=\"web\"/>", "<selvage:label> has no name="},
		{"XML", "</domain>", "</dom", "unclosed token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sub := *n
			hub := *n.Hub
			hub.Network = n.In(t)
			sub.Hub = &hub
			err := sub.calls(sub.domain(c.old, c.now), "web1", "start", "begin", "-")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("it says %v, and not %q", err, c.want)
			}
			sub.has()
		})
	}
}

// afterwards: an edge that does not run has its guest not start, or start without ports where it may; ports that could
// not be removed then are, when the guest starts again.
func (n *host) afterwards(t *testing.T) {
	sub := *n
	hub := *n.Hub
	hub.Network = n.In(t)
	sub.Hub = &hub
	alias := sub.domain("<selvage:port mac=\"52:54:00:00:00:01\"", "<selvage:port alias=\"net0\" name=\"first\"")
	alias = strings.Replace(alias, "alias=\"net0\"", fmt.Sprintf("edge=%q alias=\"net0\"", n.Edges["edge1"].Name), 1)
	sub.Once("a port is found by the alias of its interface, and has a name", func() error { return sub.calls(alias, "web1", "start", "begin", "-") })
	sub.has("first")
	sub.Once("another name takes its place", func() error { return sub.calls(sub.domain(), "web1", "start", "begin", "-") })
	sub.has("web1-0")
	sub.Once("it goes", func() error { return sub.calls(sub.domain(), "web1", "release", "end", "-") })
	sub.has()
	gone := strings.NewReplacer(fmt.Sprintf("edge=%q", n.Edges["edge1"].Name), "edge=\"nobody\"").Replace(sub.domain())
	sub.Once("without an edge a guest does not start", func() error {
		if err := sub.calls(gone, "web1", "start", "begin", "-"); err == nil || !strings.Contains(err.Error(), "nobody") {
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
	sub.Once("but where it may", func() error {
		return sub.calls(strings.Replace(gone, "edge=\"nobody\"", "edge=\"nobody\" required=\"no\"", 1), "web1", "start", "begin", "-")
	})
}
