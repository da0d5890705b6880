package edge

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/test/pkttest"
)

// A router's message about a tunnel packet shows at the next question: long before
// a tick of the loop, which comes after ten seconds here.
func TestLiveReportedPathMTU(t *testing.T) {
	l := newLive(t)
	under, err := netlink.LinkByName("under")
	must(t, err)
	far, err := netlink.LinkByName("far")
	must(t, err)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	const fragmentationNeeded, router = 4, "192.0.2.254"
	quoted := pkttest.Packet(pkttest.Ether("02:00:00:00:00:01", "02:00:00:00:00:02"),
		pkttest.IPv4("192.0.2.1", "192.0.2.2"), pkttest.UDP(50000, pkttest.VXLANPort), pkttest.Payload(20))[14:]
	message := pkttest.Packet(pkttest.Ether(far.Attrs().HardwareAddr.String(), under.Attrs().HardwareAddr.String()),
		pkttest.IPv4(router, "192.0.2.1"), pkttest.ICMP(3, fragmentationNeeded, 1400), pkttest.Bytes(quoted))

	l.during(func(ctx context.Context, c *Client) error {
		if err := unix.Sendto(fd, message, 0, &unix.SockaddrLinklayer{Ifindex: far.Attrs().Index}); err != nil {
			return err
		}
		for start := time.Now(); ; time.Sleep(time.Millisecond) {
			teps, err := c.TEPs(ctx)
			if err != nil {
				return err
			}
			if teps[0].PathMTU == 1400 && teps[0].PathMTUState == pathReported && teps[0].InnerMTU == 1350 {
				return nil
			}
			if time.Since(start) > 3*time.Second {
				return fmt.Errorf("not within 3 s: %+v", teps[0])
			}
		}
	})
}
