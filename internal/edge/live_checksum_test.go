package edge

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const checksumConfig = `apiVersion: selvage.dev/v1alpha1
kind: Edge
metadata: {name: live}
spec:
  underlay: {interfaces: [under], tep: "2001:db8::1"}
  flowCache: {size: 1024}
  fdb: {size: 64}
  segments: [{name: blue, vni: 100, udpChecksum: true, remotes: ["2001:db8::2"]}]
  ports: [{name: p0, interface: port0, segment: blue}]
`

// The checksummer is there when the edge answers, stays with a data path that
// is kept, is taken over and goes with the edge.
func TestLiveChecksummer(t *testing.T) {
	l := newLive(t)
	must(t, os.WriteFile(l.opts.ConfigPath, []byte(checksumConfig), 0o600))
	handle, err := netlink.NewHandle()
	must(t, err)
	defer handle.Close()
	under, err := handle.LinkByName("under")
	must(t, err)
	tep := &net.IPNet{IP: net.ParseIP("2001:db8::1"), Mask: net.CIDRMask(64, 128)}
	must(t, handle.AddrAdd(under, &netlink.Addr{IPNet: tep, Flags: unix.IFA_F_NODAD}))

	index := 0
	running := func(ctx context.Context, c *Client) error {
		link, err := handle.LinkByName("svx4789")
		if err != nil {
			return err
		}
		if index != 0 && link.Attrs().Index != index {
			return fmt.Errorf("svx4789 was made anew: ifindex %d, before %d", link.Attrs().Index, index)
		}
		index = link.Attrs().Index
		s, err := c.Status(ctx)
		if err == nil && strings.Contains(strings.Join(s.Problems, "\n"), "svx") {
			err = fmt.Errorf("problems %q", s.Problems)
		}
		return err
	}
	l.opts.KeepDataPath = true
	l.during(running)
	if _, err := handle.LinkByName("svx4789"); err != nil {
		t.Errorf("the data path was kept without its device: %v", err)
	}
	l.opts.KeepDataPath = false
	l.during(running)
	if _, err := handle.LinkByName("svx4789"); err == nil {
		t.Error("svx4789 is left behind")
	}
	wantEmpty(t, l.opts.RuntimeDir)
}
