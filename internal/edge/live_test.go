package edge

import (
	"bytes"
	"context"
	"errors"
	flags "flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/problem"
	"github.com/selvage/selvage/test/tier"
)

const liveConfig = `apiVersion: selvage.dev/v1alpha2
kind: Edge
metadata: {name: live}
spec:
  underlay: {interfaces: [under], tep: 192.0.2.1}
  flowCache: {size: 1024}
  fdb: {size: 64}
  segments: [{name: blue, vni: 100, remotes: [192.0.2.2]}]
  ports: [{name: p0, interface: port0, segment: blue}]
`

// TestMain has more tests run side by side than there are cores: most wait.
func TestMain(m *testing.M) {
	flags.Parse()
	if few := flags.Lookup("test.parallel"); few.Value.String() == few.DefValue {
		_ = few.Value.Set("8") // is a number
	}
	os.Exit(m.Run())
}

const checksumConfig = `apiVersion: selvage.dev/v1alpha2
kind: Edge
metadata: {name: live}
spec:
  underlay: {interfaces: [under], tep: "2001:db8::1"}
  flowCache: {size: 1024}
  fdb: {size: 64}
  segments: [{name: blue, vni: 100, udpChecksum: true, remotes: ["2001:db8::2"]}]
  ports: [{name: p0, interface: port0, segment: blue}]
`

// live is an edge on the real data path and host, in a namespace of its own.
type live struct {
	t    *testing.T
	opts RunOptions
}

// lives counts them, for each has pins of its own.
var lives atomic.Int32

// newLive has the test run beside others.
func newLive(t *testing.T) *live {
	tier.Root(t)
	t.Parallel()
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	ns, err := netns.New()
	must(t, err)
	t.Cleanup(func() { ns.Close() })
	must(t, unaffected())
	for name, peer := range map[string]string{"under": "far", "port0": "inner"} {
		must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: peer}))
		for _, end := range []string{name, peer} {
			link, err := netlink.LinkByName(end)
			must(t, err)
			must(t, netlink.LinkSetUp(link))
		}
	}
	under, err := netlink.LinkByName("under")
	must(t, err)
	addr, err := netlink.ParseAddr("192.0.2.1/24")
	must(t, err)
	must(t, netlink.AddrAdd(under, addr))

	l := &live{t: t}
	l.opts = RunOptions{
		ConfigPath: filepath.Join(t.TempDir(), "live.yaml"), StateDir: t.TempDir(), RuntimeDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler),
		PinRoot: pinRoot(), RemoveAtExit: true, Resync: time.Hour, Hangup: make(chan os.Signal),
	}
	must(t, os.WriteFile(l.opts.ConfigPath, []byte(liveConfig), 0o600))
	t.Cleanup(func() {
		if err := os.RemoveAll(l.opts.PinRoot); err != nil {
			t.Errorf("remove the test's pins: %v", err)
		}
	})
	return l
}

func pinRoot() string {
	return filepath.Join(datapath.PinRoot(""), fmt.Sprintf("test-%d-%d", os.Getpid(), lives.Add(1)))
}

// inherited are the settings that a new namespace may have from the machine's own.
var inherited = map[string]string{
	"ipv4/conf/%s/forwarding": "0", "ipv4/conf/%s/rp_filter": "0", "ipv4/conf/%s/arp_ignore": "0", "ipv4/conf/%s/arp_filter": "0",
	"ipv6/conf/%s/forwarding": "0", "ipv6/conf/%s/disable_ipv6": "0",
}

// unaffected gives the namespace of the thread the settings that tests rest on.
func unaffected() error {
	var errs []error
	for name, value := range inherited {
		for _, of := range []string{"all", "default"} {
			err := os.WriteFile("/proc/sys/net/"+fmt.Sprintf(name, of), []byte(value), 0)
			if !errors.Is(err, fs.ErrNotExist) { // of a kernel without IPv6
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// during runs the edge on the test's thread, which is in the namespace, while
// f asks it; then it ends the edge.
func (l *live) during(f func(ctx context.Context, c *api.Client) error) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	asked := make(chan error, 1)
	go func() {
		defer cancel()
		c := api.Dial(l.opts.RuntimeDir, "live")
		err := await.Within(ctx, 3*await.Patience, "the edge to answer", func() error {
			_, err := c.Status(ctx)
			return err
		})
		if err == nil {
			err = f(ctx, c)
		}
		asked <- err
	}()
	err := Run(ctx, l.opts)
	cancel()
	if err := errors.Join(err, <-asked); err != nil {
		l.t.Fatal(err)
	}
}

// An edge starts, leaves its data path and the device that makes outer checksums, takes them over
// and removes them; but not what a newer build has pinned meanwhile, of which it says where it
// is and what to do.
func TestLive(t *testing.T) {
	l := newLive(t)
	var log bytes.Buffer
	l.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	pins := filepath.Join(l.opts.PinRoot, "live")
	handle, err := netlink.NewHandle()
	must(t, err)
	defer handle.Close()
	must(t, address("under", "2001:db8::1/64"))
	must(t, os.WriteFile(l.opts.ConfigPath, []byte(checksumConfig), 0o600))
	device := 0
	newer := []string{filepath.Join(pins, "links", "meter-5"), filepath.Join(pins, "maps-9999")}
	running := func(adopted bool, want ...string) func(context.Context, *api.Client) error {
		want = append(want, "next hop 2001:db8::2 on under does not answer", "port p0 has MTU 1500")
		return func(ctx context.Context, c *api.Client) error {
			s, err := c.Status(ctx)
			if err != nil {
				return err
			}
			if s.Adopted != adopted || s.Ports != (api.Tally{Up: 1, Total: 1}) || s.TEPs != (api.Tally{Up: 0, Total: 1}) {
				return fmt.Errorf("status %+v, want adopted %v, its port up and its silent remote not", s, adopted)
			}
			problems := strings.Join(problem.Texts(s.Problems), "\n")
			for _, w := range want {
				if !strings.Contains(problems, w) || len(s.Problems) != len(want) {
					return fmt.Errorf("problems %q, want %q", s.Problems, want)
				}
			}
			link, err := handle.LinkByName("svx4789")
			if err != nil {
				return err
			}
			if device != 0 && link.Attrs().Index != device {
				return fmt.Errorf("svx4789 was made anew: ifindex %d, before %d", link.Attrs().Index, device)
			}
			device = link.Attrs().Index
			drops, err := c.Drops(ctx)
			if err == nil && len(drops) == 0 {
				err = errors.New("no reasons to drop")
			}
			return err
		}
	}
	l.opts.RemoveAtExit = false
	l.during(running(false))
	abandoned, err := AbandonedIn(filepath.Dir(pins), l.opts.RuntimeDir)
	must(t, err)
	if len(abandoned) != 1 || abandoned[0].Name != "live" || abandoned[0].Programs != 2 || abandoned[0].Pins != pins || time.Since(abandoned[0].Since) > time.Hour {
		t.Errorf("abandoned: %+v, want port and underlay of live", abandoned)
	}
	if _, err := os.Stat(pins); err != nil {
		t.Errorf("pins were not kept: %v", err)
	}
	if _, err := handle.LinkByName("svx4789"); err != nil {
		t.Errorf("the data path was kept without its device: %v", err)
	}
	for _, path := range newer {
		must(t, os.Mkdir(path, 0o700))
	}
	must(t, os.Mkdir(filepath.Join(pins, "maps-1"), 0o700))
	l.opts.RemoveAtExit = true
	l.during(running(true, newer[0]+" is of a newer release", newer[1]+" is of a newer release"))
	for _, want := range []string{
		`level=INFO msg="pins of a previous process" edge=live what="adopted 3 links from `,
		`level=INFO msg="pins of a previous process" edge=live what="removed 0 maps of ABI 1 from `,
		`level=WARN msg="` + newer[0] + " is of a newer release and left as it is",
		"or remove it: rm -r " + newer[1],
		`level=WARN msg="left behind" edge=live what="` + newer[1],
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, &log)
		}
	}
	wantOnly(t, pins, "links", "maps-9999")
	wantOnly(t, filepath.Join(pins, "links"), "meter-5")
	if abandoned, err := AbandonedIn(filepath.Dir(pins), l.opts.RuntimeDir); err != nil || len(abandoned) != 0 {
		t.Errorf("abandoned after a regular end: %+v (%v)", abandoned, err)
	}
	wantEmpty(t, l.opts.RuntimeDir)
	if _, err := handle.LinkByName("svx4789"); err == nil {
		t.Error("svx4789 is left behind")
	}
	neighs, err := netlink.NeighList(0, netlink.FAMILY_V6)
	must(t, err)
	for _, n := range neighs {
		// The kernel itself makes an unmanaged entry for a probe that was on its way; it expires.
		if n.IP.String() == "2001:db8::2" && n.FlagsExt&netlink.NTF_EXT_MANAGED != 0 {
			t.Errorf("neighbour %v is left behind", n)
		}
	}
}

func wantOnly(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, want) {
		t.Errorf("%s holds %q, want %q", dir, names, want)
	}
}

// What the kernel tells is acted on long before a tick of the loop: a router's message about a
// tunnel packet, and a link that comes and goes, which is attached each time.
func TestLiveEvents(t *testing.T) {
	l := newLive(t)
	handle, err := netlink.NewHandle()
	must(t, err)
	defer handle.Close()
	tooBig := sendsTooBig(t)
	l.during(func(ctx context.Context, c *api.Client) error {
		if err := tooBig(); err != nil {
			return err
		}
		if err := pathMTUReported(ctx, c); err != nil {
			return err
		}
		for range 2 {
			link, err := handle.LinkByName("port0")
			if err != nil {
				return err
			}
			if err := handle.LinkDel(link); err != nil {
				return err
			}
			if err := portBecomes(ctx, c, "absent"); err != nil {
				return err
			}
			err = handle.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "port0"}, PeerName: "inner"})
			if err != nil {
				return err
			}
			if err := portBecomes(ctx, c, "down"); err != nil {
				return err
			}
		}
		return nil
	})
}

func portBecomes(ctx context.Context, c *api.Client, state string) error {
	return await.That(ctx, "a port that is "+state, func() error {
		ports, err := c.Ports(ctx)
		if err == nil && ports[0].State != state {
			err = fmt.Errorf("it is %s", ports[0].State)
		}
		return err
	})
}
