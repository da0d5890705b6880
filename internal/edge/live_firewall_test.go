package edge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/trace"
)

const liveFirewall = `  firewall:
    default: drop
    sections:
    - name: app
      rules:
      - {name: dns, action: allow, services: [udp/53]}
      - {name: ntp, action: allow, services: [udp/123]}
`

// sends returns what sends UDP from the workload behind port0. It must be called in the
// namespace.
func sends(t *testing.T) func(port uint16) error {
	t.Helper()
	inner, err := net.InterfaceByName("inner")
	must(t, err)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return func(port uint16) error {
		p, err := trace.Parse(fmt.Sprintf("udp 10.0.0.1:1000 > 10.0.0.2:%d 18", port))
		if err != nil {
			return err
		}
		frame := p.Frame(trace.Ether{Src: overlay.MAC{2, 0, 0, 0, 0, 1}, Dst: overlay.MAC{2, 0, 0, 0, 0, 2}})
		return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: inner.Index})
	}
}

// The whole way of a policy: from the file into the kernel, its counters and sessions
// back, another policy asked about, and then in force.
func TestLiveFirewall(t *testing.T) {
	l := newLive(t)
	l.opts.Sweep = 10 * time.Millisecond
	l.opts.Hangup = nil // SIGHUP, in this test alone
	must(t, os.WriteFile(l.opts.ConfigPath, []byte(liveConfig+liveFirewall), 0o600))
	send := sends(t)
	l.during(func(ctx context.Context, c *api.Client) error {
		for _, port := range []uint16{53, 99, 53} {
			if err := send(port); err != nil {
				return err
			}
		}
		if err := counts(ctx, c, map[string]uint64{"app/dns": 1, "app/ntp": 0, "default/edge": 1}); err != nil {
			return err
		}
		if err := tracked(ctx, c, "app/dns"); err != nil {
			return err
		}
		for rules, cut := range map[string]int{liveFirewall: 0, strings.Replace(liveFirewall, "udp/53", "udp/54", 1): 1, "": 0} {
			if err := wouldCut(ctx, c, liveConfig+rules, cut); err != nil {
				return err
			}
		}
		next := strings.Replace(liveFirewall, "udp/53", "udp/54", 1)
		if err := os.WriteFile(l.opts.ConfigPath, []byte(liveConfig+next), 0o600); err != nil {
			return err
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			return err
		}
		if err := matches(ctx, c, "54"); err != nil {
			return err
		}
		// The edge names its new rules before they are in the kernel.
		return eventually(ctx, "the new policy in force", func() (bool, error) {
			rules, err := c.Rules(ctx)
			return len(rules) == 3 && rules[2].Connections > 1, errors.Join(err, send(53))
		})
	})
}

// eventually asks until the answer is good.
func eventually(ctx context.Context, what string, ok func() (bool, error)) error {
	return await.That(ctx, what, func() error {
		done, err := ok()
		if err == nil && !done {
			err = errNotYet
		}
		return err
	})
}

func counts(ctx context.Context, c *api.Client, want map[string]uint64) error {
	return eventually(ctx, fmt.Sprint("counters ", want), func() (bool, error) {
		rules, err := c.Rules(ctx)
		for _, r := range rules {
			if r.Connections < want[r.Section+"/"+r.Name] {
				return false, err
			}
		}
		return len(rules) == len(want), err
	})
}

func matches(ctx context.Context, c *api.Client, words string) error {
	return eventually(ctx, "rules with "+words, func() (bool, error) {
		rules, err := c.Rules(ctx)
		return len(rules) > 0 && strings.Contains(rules[0].Matches, words), err
	})
}

// tracked wants one session, by rule.
func tracked(ctx context.Context, c *api.Client, rule string) error {
	list, err := c.Sessions(ctx, api.ConnectionQuery{Port: "p0", Addr: netip.MustParsePrefix("10.0.0.2/32"), State: "unreplied"})
	if err != nil {
		return err
	}
	if len(list.Sessions) != 1 || list.Sessions[0].Rule != rule || !list.Sessions[0].Current || list.Sessions[0].SrcPort != 1000 {
		return fmt.Errorf("sessions %+v", list)
	}
	return eventually(ctx, "the sweep to count", func() (bool, error) {
		info, err := c.Firewall(ctx)
		return info.HalfOpen["p0"].Out == 1, err
	})
}

func wouldCut(ctx context.Context, c *api.Client, text string, cut int) error {
	next, err := config.Parse("new.yaml", []byte(text))
	if err != nil {
		return err
	}
	info, err := c.WhatIf(ctx, api.WhatIfQuery{Firewall: next.Firewall, Places: plan.Places(next), Limit: 5})
	if err == nil && (info.Total != 1 || info.Cut != cut || len(info.Sessions) != cut) {
		err = fmt.Errorf("with %s: %+v, want %d connections cut", text, info, cut)
	}
	return err
}
