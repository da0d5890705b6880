// Package places has machines that are reached by SSH, for tests: network namespaces with
// Debian's sshd, a management network to the one that ssh runs in, and between two of them a
// data link with a foreign overlay (the kernel's vxlan) on it; where a test asks for it a third one, a
// gateway between both that translates by nftables.
//
// Its one invariant: nothing of it listens outside of its namespaces, and all of it goes with the
// test. It is for tests only.
package places

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

// Picture is the testbed.
const Picture = `
          ┌─── m0 a d0 ═══════ data, 10.10.0.0/24 and fd10::/64 ═╗
   ssh ───┤    10.9.1.1        x0 vxlan, 10.11.0.0/24            ║
          └─── m0 b d0 ══════════════════════════════════════════╝
               10.9.2.1
   with a gateway:
     a e0 ─── 10.12.0.0/24, fd12::/64 ─── e0 g w0 ─── 10.13.0.0/24, fd13::/64 ─── w0 b
                                          10.9.3.1, masquerades`

// Names of interfaces of the machines.
const (
	Management = "m0"
	Data       = "d0"
	Overlay    = "x0"
	Inside     = "e0" // between a and the gateway
	Outside    = "w0" // between the gateway and b
)

// Testbed is two machines or three, and another one where ssh is run.
type Testbed struct {
	A, B *Machine
	// Gateway is nil without one.
	Gateway *Gateway
	// Client is the namespace of ssh.
	Client *topo.Host
	// SSH is the ssh program for lab/place, whose hosts are named a, b and g.
	SSH []string
	// Dir is /mnt of the machines. Programs in its bin go before others there.
	Dir string
}

// Machine is a namespace with sshd, and directories for temporary files of its own.
type Machine struct {
	Host                         *topo.Host
	Underlay, Underlay6, Overlay netip.Addr
	sshd                         *topo.Command
}

// New builds the testbed of two machines, for a test that runs beside others.
func New(t *testing.T) *Testbed {
	t.Helper()
	return newTestbed(t, "a", "b")
}

// NewWithGateway is New with a gateway between both machines, for what a sends to Gateway.Target.
func NewWithGateway(t *testing.T) *Testbed {
	t.Helper()
	return newTestbed(t, "a", "b", "g")
}

func newTestbed(t *testing.T, names ...string) *Testbed {
	t.Helper()
	tier.Root(t)
	t.Parallel()
	if _, err := os.Stat(sshd); err != nil {
		t.Fatal("sshd is not installed: apt-get install openssh-server")
	}
	lab, err := topo.New(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	testbed, err := build(t.Context(), lab, names)
	if err != nil {
		t.Fatalf("%v\n%s", err, Picture)
	}
	return testbed
}

const sshd = "/usr/sbin/sshd"

func build(ctx context.Context, lab *topo.Lab, names []string) (*Testbed, error) {
	client, err := lab.Host("ssh")
	if err != nil {
		return nil, err
	}
	testbed := &Testbed{Client: client, Dir: lab.Dir}
	if err := testbed.makeKeys(ctx, names); err != nil {
		return nil, err
	}
	var machines []*Machine
	for i, name := range names {
		m, err := testbed.machine(ctx, lab, name, i+1)
		if err != nil {
			return nil, fmt.Errorf("machine %s: %w", name, err)
		}
		machines = append(machines, m)
	}
	testbed.A, testbed.B = machines[0], machines[1]
	if err := testbed.join(ctx, lab); err != nil {
		return nil, err
	}
	if len(machines) > 2 {
		testbed.Gateway = &Gateway{Machine: machines[2]}
		if err := testbed.route(ctx, lab); err != nil {
			return nil, fmt.Errorf("gateway: %w", err)
		}
	}
	for _, m := range machines {
		if err := m.Host.AwaitListen(ctx, "tcp", 22); err != nil {
			return nil, err
		}
	}
	testbed.SSH = []string{"ip", "netns", "exec", client.Namespace, "ssh", "-F", filepath.Join(testbed.Dir, "ssh_config")}
	return testbed, nil
}

// makeKeys makes the user's key, the machines' and the user's configuration.
func (b *Testbed) makeKeys(ctx context.Context, names []string) error {
	known, config := "", ""
	for _, name := range append([]string{"user"}, names...) {
		key := filepath.Join(b.Dir, name+"_key")
		if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
			return fmt.Errorf("ssh-keygen: %w: %s", err, out)
		}
		public, err := os.ReadFile(key + ".pub")
		if err != nil {
			return err
		}
		if name == "user" {
			config = fmt.Sprintf("IdentityFile %s\nIdentitiesOnly yes\nUser root\nUserKnownHostsFile %s\nStrictHostKeyChecking yes\n", key, filepath.Join(b.Dir, "known_hosts"))
			if err := os.WriteFile(filepath.Join(b.Dir, "authorized"), public, 0o644); err != nil {
				return err
			}
			continue
		}
		addr := management(name)
		known += addr.String() + " " + string(public)
		config += fmt.Sprintf("Host %s\n\tHostName %s\n", name, addr)
	}
	if err := os.WriteFile(filepath.Join(b.Dir, "known_hosts"), []byte(known), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.Dir, "ssh_config"), []byte(config), 0o644)
}

func management(name string) netip.Addr {
	return map[string]netip.Addr{"a": netip.MustParseAddr("10.9.1.1"), "b": netip.MustParseAddr("10.9.2.1"), "g": netip.MustParseAddr("10.9.3.1")}[name]
}

// machine makes a namespace with a management link and sshd.
func (b *Testbed) machine(ctx context.Context, lab *topo.Lab, name string, n int) (*Machine, error) {
	host, err := lab.Host(name)
	if err != nil {
		return nil, err
	}
	m := &Machine{
		Host: host, Underlay: netip.MustParseAddr(fmt.Sprintf("10.10.0.%d", n)),
		Underlay6: netip.MustParseAddr(fmt.Sprintf("fd10::%d", n)), Overlay: netip.MustParseAddr(fmt.Sprintf("10.11.0.%d", n)),
	}
	addr := management(name)
	err = lab.Link(ctx,
		topo.LinkEnd{Host: host, Name: Management, Addrs: []netip.Prefix{netip.PrefixFrom(addr, 24)}},
		topo.LinkEnd{Host: b.Client, Name: b.ManagementOf(name), Addrs: []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr(fmt.Sprintf("10.9.%d.2", n)), 24)}},
		1500)
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf("ListenAddress %s\nHostKey /mnt/%s_key\nAuthorizedKeysFile /mnt/authorized\nPermitRootLogin prohibit-password\n"+
		"PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nStrictModes no\nPidFile none\nClientAliveInterval 1\nClientAliveCountMax 3\nLoginGraceTime 10\nMaxStartups 50\nSetEnv PATH=/mnt/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp\n", addr, name)
	if err := os.WriteFile(filepath.Join(b.Dir, name+"_sshd"), []byte(config), 0o644); err != nil {
		return nil, err
	}
	// Its users have a home of their own too: what a login shell of this machine does is not of the test.
	// In a mount namespace of its own, so that the machine's temporary files are its own and
	// sshd has its directory in /run.
	m.sshd = host.Command(ctx, "unshare", "--mount", "sh", "-c", fmt.Sprintf("mount --bind %s /mnt && mount -t tmpfs tmpfs /run && "+
		"mount -t tmpfs tmpfs /tmp && mount -t tmpfs tmpfs /var/tmp && mkdir /run/sshd && exec %s -D -e -f /mnt/%s_sshd", b.Dir, sshd, name))
	m.sshd.Log = filepath.Join(b.Dir, name+"_sshd.log")
	return m, m.sshd.Start()
}

// ManagementOf is the client's interface to a machine.
func (*Testbed) ManagementOf(name string) string { return "to-" + name }

// Root is a directory of the machine as seen from outside.
func (m *Machine) Root(path string) string {
	return filepath.Join(fmt.Sprintf("/proc/%d/root", m.sshd.PID()), path)
}

// SSHD is the process of sshd.
func (m *Machine) SSHD() int { return m.sshd.PID() }

// join makes the data link and the overlay on it.
func (b *Testbed) join(ctx context.Context, lab *topo.Lab) error {
	end := func(m *Machine) topo.LinkEnd {
		return topo.LinkEnd{Host: m.Host, Name: Data, Addrs: []netip.Prefix{netip.PrefixFrom(m.Underlay, 24), netip.PrefixFrom(m.Underlay6, 64)}}
	}
	if err := lab.Link(ctx, end(b.A), end(b.B), 1500); err != nil {
		return err
	}
	for _, ends := range [][2]*Machine{{b.A, b.B}, {b.B, b.A}} {
		m := ends[0]
		if err := m.Host.VXLAN(ctx, Overlay, topo.VXLAN{VNI: 7, Local: m.Underlay, Remotes: []netip.Addr{ends[1].Underlay}, MTU: 1450}); err != nil {
			return err
		}
		if err := m.Host.AddAddr(Overlay, netip.PrefixFrom(m.Overlay, 24)); err != nil {
			return err
		}
	}
	return b.A.Host.Reach(ctx, b.B.Overlay)
}
