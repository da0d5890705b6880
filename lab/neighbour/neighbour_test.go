package neighbour

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

func TestMain(m *testing.M) {
	tier.SideBySide(4)
	os.Exit(m.Run())
}

// What parse takes apart is what request and reply put together, and frames that are cut or
// spoiled anywhere are no reason to fail.
func TestFrames(t *testing.T) {
	own, theirs := net.HardwareAddr{2, 0, 0, 0, 0, 1}, net.HardwareAddr{2, 0, 0, 0, 0, 2}
	for _, pair := range [][2]string{{"192.0.2.1", "192.0.2.2"}, {"2001:db8::1", "2001:db8::2"}} {
		us, them := netip.MustParseAddr(pair[0]), netip.MustParseAddr(pair[1])
		asked, ok := parse(request(them, us, own))
		if !ok || !asked.asks || asked.sender != us || asked.target != them || asked.mac.String() != own.String() {
			t.Errorf("request: %+v, %t", asked, ok)
		}
		answer := reply(asked, theirs)
		got, ok := parse(answer)
		if !ok || got.asks || got.sender != them || got.mac.String() != theirs.String() || string(answer[:6]) != string(own) {
			t.Errorf("reply: %+v, %t", got, ok)
		}
		for n := range answer {
			if m, ok := parse(answer[:n]); ok && m.mac.String() != theirs.String() {
				t.Errorf("%d bytes of %d: %+v", n, len(answer), m)
			}
			spoiled := append([]byte{}, answer...)
			spoiled[n] ^= 0xff
			parse(spoiled)
		}
	}
}

/*
world is a port without addresses, and a kernel that has some:

	tester p0 ----- d0 device 192.0.2.1/24, 2001:db8::1/64
*/
func world(t *testing.T) (topo.Port, *topo.Host) {
	t.Helper()
	tier.Root(t)
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	lab, err := topo.New(ctx, "neighbour-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	tester, err := lab.Host("tester")
	must(err)
	device, err := lab.Host("device")
	must(err)
	addrs := []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("2001:db8::1/64")}
	must(lab.Link(ctx, topo.LinkEnd{Host: tester, Name: "p0"}, topo.LinkEnd{Host: device, Name: "d0", Addrs: addrs}, 1500))
	port, err := topo.ReadPort(tester.Namespace, "p0")
	must(err)
	return port, device
}

func ip(t *testing.T, h *topo.Host, words string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ip", append([]string{"-n", h.Namespace}, strings.Fields(words)...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %s: %v: %s", words, err, out)
	}
	return string(out)
}

// A kernel's addresses are found, and it finds those that nobody has.
func TestAgainstAKernel(t *testing.T) {
	for _, c := range []struct{ name, network, device string }{
		{"IPv4", "192.0.2.0/24", "192.0.2.1"}, {"IPv6", "2001:db8::/64", "2001:db8::1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			port, device := world(t)
			network, theirs := netip.MustParsePrefix(c.network), netip.MustParseAddr(c.device)
			r, err := Open(port, Options{Own: []netip.Prefix{network}, Others: []netip.Addr{theirs}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}()
			own := theirs.Next()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			mac, err := r.Resolve(ctx, theirs, own)
			if err != nil {
				t.Fatal(err)
			}
			if want, err := device.MAC("d0"); err != nil || mac.String() != want.String() {
				t.Errorf("%s is at %s, want %s (%v)", theirs, mac, want, err)
			}
			asked := own.Next()
			if err := device.Do(func() error { return dial(asked) }); err != nil {
				t.Fatal(err)
			}
			err = await.That(ctx, "the kernel's neighbour", func() error {
				if out := ip(t, device, "neigh show "+asked.String()); !strings.Contains(out, port.MAC.String()) {
					return fmt.Errorf("%q", out)
				}
				return nil
			})
			if err != nil || r.Answered() == 0 {
				t.Errorf("%d answered: %v", r.Answered(), err)
			}
		})
	}
}

// dial sends a datagram to an address, which needs its neighbour.
func dial(addr netip.Addr) error {
	c, err := net.Dial("udp", netip.AddrPortFrom(addr, 9).String())
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte{0})
	return err
}

// Neighbours of one VLAN hear each other, and no others.
func TestVLAN(t *testing.T) {
	port, device := world(t)
	far, err := topo.ReadPort(device.Namespace, "d0")
	if err != nil {
		t.Fatal(err)
	}
	open := func(port topo.Port, addr string, vlan uint16) *Responder {
		r, err := Open(port, Options{Own: []netip.Prefix{netip.MustParsePrefix(addr)}, VLAN: vlan})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		return r
	}
	near, plain := open(port, "198.51.100.1/32", 7), open(port, "198.51.100.1/32", 0)
	tagged := open(far, "198.51.100.2/32", 7)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	from, to := netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.2")
	if mac, err := near.Resolve(ctx, to, from); err != nil || mac.String() != far.MAC.String() {
		t.Errorf("%s, %v", mac, err)
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if mac, err := plain.Resolve(short, to, from); err == nil {
		t.Errorf("without the tag it is at %s", mac)
	}
	if tagged.Answered() == 0 {
		t.Error("none answered")
	}
}

// Who does not answer is named, with the port.
func TestNobodyAnswers(t *testing.T) {
	port, _ := world(t)
	r, err := Open(port, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := r.Resolve(ctx, netip.MustParseAddr("192.0.2.99"), netip.MustParseAddr("192.0.2.2")); err == nil || !strings.Contains(err.Error(), "192.0.2.99 does not answer at ns:") {
		t.Errorf("%v", err)
	}
}
