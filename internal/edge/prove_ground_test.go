package edge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/test/tier"
)

// provingWorld is two edges, each with a guest, and a bridge between them:
//
//	guest a -- edge a (192.0.2.1) -- bridge -- edge b (192.0.2.2) -- guest b
type provingWorld struct {
	t      *testing.T
	places map[string]netns.NsHandle
	dir    string
	pins   string
	ctx    context.Context
	teps   []string
	config string // as provingConfig
	// running are the edges.
	running sync.WaitGroup
}

const provingConfig = `apiVersion: selvage.dev/v1alpha2
kind: Edge
metadata: {name: %[1]s}
spec:
  underlay: {interfaces: [under], tep: "%[4]s"}
  flowCache: {size: 1024}
  fdb: {size: 256}
  segments:
  - {name: blue, vni: 100, remotes: ["%[5]s"], fdb: [{mac: "02:00:00:00:00:99", remote: "%[5]s"}]}
  - {name: idle, vni: 102, remotes: ["%[5]s"]}
  - name: empty
    vni: 101
    encapsulation: geneve
    options: "0104 8101 deadbeef"
    outer: {dscp: 46, ttl: 7}
    remotes: ["%[5]s"]
    fdb: [{mac: "02:00:00:00:00:99", remote: "%[5]s"}]
  - {name: nv, vni: 5001, encapsulation: nvgre, remotes: ["%[5]s"], fdb: [{mac: "02:00:00:00:00:99", remote: "%[5]s"}]}
  - {name: home%[2]d, vni: 11%[2]d, remotes: [], gateway: {router: tenant, addresses: [10.%[2]d.0.254/24, "2001:db8:%[2]d::fe/64"]}}
  routers:
  - name: tenant
    loopbacks: [10.255.0.%[2]d, "2001:db8:ff::%[2]d"]
    l3: {vni: 5000, mac: "02:00:00:00:01:0%[2]d", remotes: ["%[5]s"]}
    routes:
    - {prefix: 10.%[3]d.0.0/24, via: [{remote: "%[5]s", mac: "02:00:00:00:01:0%[3]d"}]}
    - {prefix: 10.255.0.%[3]d/32, via: [{remote: "%[5]s", mac: "02:00:00:00:01:0%[3]d"}]}
    - {prefix: "2001:db8:%[3]d::/64", via: [{remote: "%[5]s", mac: "02:00:00:00:01:0%[3]d"}]}
    - {prefix: 10.7%[2]d.0.0/16, via: [{remote: "%[5]s", mac: "02:00:00:00:01:0%[3]d"}]}
  ports: [{name: p0, interface: port0, segment: blue, vlans: [{vlan: 10, segment: empty}, {vlan: 20, segment: nv}]}]
`

// newProvingWorld makes one whose edges are at these addresses, of a network of so many bits.
func newProvingWorld(t *testing.T, bits int, teps ...string) *provingWorld {
	tier.Root(t)
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	f := &provingWorld{t: t, pins: pinRoot(), places: make(map[string]netns.NsHandle), dir: t.TempDir(), ctx: ctx, teps: teps, config: provingConfig}
	t.Cleanup(func() {
		cancel()
		f.running.Wait()
		for _, ns := range f.places {
			ns.Close()
		}
	})
	for _, name := range []string{"a", "b", "mid", "guest-a", "guest-b"} {
		f.in("", func() error {
			ns, err := netns.New()
			f.places[name] = ns
			return errors.Join(err, unaffected())
		})
	}
	f.in("mid", func() error { return add(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}) })
	for i, name := range []string{"a", "b"} {
		f.pair("mid", "to-"+name, name, "under")
		f.pair("guest-"+name, "eth0", name, "port0")
		f.in("mid", func() error { return enslave("to-"+name, "br0") })
		f.in(name, func() error { return address("under", fmt.Sprintf("%s/%d", teps[i], bits)) })
		f.in("guest-"+name, func() error { return address("eth0", fmt.Sprintf("10.0.0.%d/24", i+1)) })
	}
	return f
}

// start runs edges.
func (f *provingWorld) start(names ...string) {
	f.t.Helper()
	for _, name := range names {
		i := slices.Index([]string{"a", "b"}, name)
		opts := RunOptions{
			ConfigPath: filepath.Join(f.dir, name+".yaml"), StateDir: f.dir, RuntimeDir: f.dir, Logger: slog.New(slog.DiscardHandler),
			PinRoot: f.pins, RemoveAtExit: true, Hangup: make(chan os.Signal),
		}
		must(f.t, os.WriteFile(opts.ConfigPath, fmt.Appendf(nil, f.config, name, i+1, 2-i, f.teps[i], f.teps[1-i]), 0o600))
		f.t.Cleanup(func() { os.RemoveAll(opts.PinRoot) })
		f.running.Go(func() { f.in(name, func() error { return Run(f.ctx, opts) }) })
	}
	for _, name := range names {
		f.await("edge "+name+" resolves its remote", func() bool {
			s, err := f.edge(name).Status(f.ctx)
			return err == nil && s.TEPs == api.Tally{Up: 1, Total: 1}
		})
	}
}

// in does something in a place's namespace, "" in that of the test.
func (f *provingWorld) in(place string, do func() error) {
	f.t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if place != "" {
			if err := netns.Set(f.places[place]); err != nil {
				done <- err
				return
			}
		}
		done <- do()
	}()
	if err := <-done; err != nil {
		f.t.Errorf("in %s: %v", place, err)
	}
}

func (f *provingWorld) pair(here, name, there, peer string) {
	f.t.Helper()
	f.in(here, func() error {
		veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: peer, PeerNamespace: netlink.NsFd(f.places[there])}
		return add(veth)
	})
	f.in(there, func() error { return up(peer) })
}

func add(l netlink.Link) error {
	if err := netlink.LinkAdd(l); err != nil {
		return err
	}
	return up(l.Attrs().Name)
}

func up(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

func enslave(name, bridge string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	master, err := netlink.LinkByName(bridge)
	if err != nil {
		return err
	}
	return netlink.LinkSetMaster(link, master)
}

func address(name, addr string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	parsed, err := netlink.ParseAddr(addr)
	if err != nil {
		return err
	}
	parsed.Flags = unix.IFA_F_NODAD
	return netlink.AddrAdd(link, parsed)
}

func (f *provingWorld) run(place string, words ...string) {
	f.t.Helper()
	f.in(place, func() error {
		out, err := exec.CommandContext(f.ctx, words[0], words[1:]...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, out)
		}
		return err
	})
}

func (f *provingWorld) edge(name string) *api.Client { return api.Dial(f.dir, name) }

func (f *provingWorld) await(what string, is func() bool) {
	f.t.Helper()
	must(f.t, await.Within(f.ctx, 3*await.Patience, what, func() error {
		if !is() {
			return errNotYet
		}
		return nil
	}))
}

// plant has the bridge drop what comes from edge a and matches; the returned function ends it.
func (f *provingWorld) plant(match string) (end func()) {
	f.t.Helper()
	f.run("mid", "nft", "add table netdev planted; add chain netdev planted in { type filter hook ingress device to-a priority 0; }; add rule netdev planted in "+match+" drop")
	return func() { f.run("mid", "nft", "delete table netdev planted") }
}
