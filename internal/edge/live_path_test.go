package edge

import (
	"context"
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/test/pkttest"
)

// sendsTooBig returns what has a router on the underlay say that a tunnel packet was too big.
// It must be called in the namespace.
func sendsTooBig(t *testing.T) func() error {
	t.Helper()
	under, err := netlink.LinkByName("under")
	must(t, err)
	far, err := netlink.LinkByName("far")
	must(t, err)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	const fragmentationNeeded, router = 4, "192.0.2.254"
	quoted := pkttest.Packet(pkttest.Ether("02:00:00:00:00:01", "02:00:00:00:00:02"),
		pkttest.IPv4("192.0.2.1", "192.0.2.2"), pkttest.UDP(50000, pkttest.VXLANPort), pkttest.Payload(20))[14:]
	message := pkttest.Packet(pkttest.Ether(far.Attrs().HardwareAddr.String(), under.Attrs().HardwareAddr.String()),
		pkttest.IPv4(router, "192.0.2.1"), pkttest.ICMP(3, fragmentationNeeded, 1400), pkttest.Bytes(quoted))
	return func() error {
		return unix.Sendto(fd, message, 0, &unix.SockaddrLinklayer{Ifindex: far.Attrs().Index})
	}
}

// pathMTUReported waits until what the router said shows. Ticks of the loop come every hour.
func pathMTUReported(ctx context.Context, c *api.Client) error {
	return await.That(ctx, "the path MTU of the router's message", func() error {
		teps, err := c.TEPs(ctx)
		if err == nil && (teps[0].PathMTU != 1500 || teps[0].ReportedMTU != 1400) {
			err = fmt.Errorf("%+v", teps[0])
		}
		return err
	})
}
