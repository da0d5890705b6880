package harness

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/lab/topo"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//	MTU 1500                   1500                  MTU 1500
//
// The guests believe in more than the tunnel carries, and nothing disappears.

// Tight is a network whose guests send too much.
func Tight(family int) topo.TwoHostsOptions {
	return topo.TwoHostsOptions{UnderlayMTU: 1500, InnerMTU: 1500, UnderlayFamily: family}
}

// HasMSS opens a connection and reads what it sends in one segment.
func HasMSS(d Direction, want int) error {
	l, err := ListenTCP(d.To, d.Addr)
	if err != nil {
		return err
	}
	defer l.Close()
	conn, err := DialTCP(d.From, l.Addr().String())
	if err != nil {
		return err
	}
	defer conn.Close()
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var mss int
	var failed error
	err = raw.Control(func(fd uintptr) { mss, failed = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG) })
	if err = errors.Join(err, failed); err == nil && mss != want {
		err = fmt.Errorf("it is %d, want %d", mss, want)
	}
	return err
}

// PingSize sends one echo request in an IP packet of size bytes with "don't fragment".
func PingSize(n *Network, d Direction, size int) error {
	out, err := d.From.Output(n.Ctx, pingSized(d, size)...)
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return err
}

func pingSized(d Direction, size int) []string {
	headers := 28
	if d.Addr.Is6() {
		headers = 48
	}
	return []string{"ping", "-n", "-c1", "-W1", "-M", "do", "-s", strconv.Itoa(size - headers), d.Addr.String()}
}

// TooBigPing is nil when a ping of size is refused with that MTU, by that address.
func TooBigPing(n *Network, d Direction, size, mtu int, by netip.Addr) error {
	if _, err := d.From.Output(n.Ctx, "ip", "route", "flush", "cache"); err != nil {
		return err
	}
	if _, err := d.From.Output(n.Ctx, "ip", "-6", "route", "flush", "cache"); err != nil {
		return err
	}
	out, _ := d.From.Output(n.Ctx, pingSized(d, size)...)
	for _, form := range []string{"From %s icmp_seq=1 Frag needed and DF set (mtu = %d)", "From %s icmp_seq=1 Packet too big: mtu=%d"} {
		if strings.Contains(string(out), fmt.Sprintf(form, by, mtu)) {
			return nil
		}
	}
	return fmt.Errorf("want MTU %d from %s: %s", mtu, by, out)
}

// KnowsMTU is nil when the kernel of a sender has the path's MTU.
func KnowsMTU(n *Network, d Direction, mtu int) error {
	out, err := d.From.Output(n.Ctx, "ip", "route", "get", d.Addr.String())
	if err == nil && !strings.Contains(string(out), fmt.Sprintf(" mtu %d ", mtu)) {
		err = errors.New(string(out))
	}
	return err
}
