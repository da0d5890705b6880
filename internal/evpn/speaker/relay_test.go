package speaker

import (
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"github.com/selvage/selvage/internal/overlay"
)

// An edge that opens sessions only, and refuses the AS of the other, is refused connections itself: the other says why the
// session does not come, not that nothing listens.
func TestRefusedOpenStands(t *testing.T) {
	relay := newRelay(slog.New(slog.DiscardHandler))
	n := overlay.BGPNeighbour{Name: "peer", Addr: netip.MustParseAddr("192.0.2.2"), AS: 65000}
	h := handler{relay: relay, of: relay.add(n)}
	failure := func() string {
		why, _, _ := h.of.read()
		return why
	}
	connect := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	relay.failed(n.Addr, connect)
	if why := failure(); !strings.HasSuffix(why, "nothing listens there: start BGP at 192.0.2.2, or set its port; a Selvage edge listens only with spec.bgp.listen, which one of two edges needs") {
		t.Errorf("%q", why)
	}
	code := func(code uint8, subCode int64) map[string]slog.Value {
		return map[string]slog.Value{"Code": slog.Int64Value(int64(code)), "Subcode": slog.Int64Value(subCode)}
	}
	h.read(receivedNotification, code(bgp.BGP_ERROR_OPEN_MESSAGE_ERROR, bgp.BGP_ERROR_SUB_BAD_PEER_AS))
	relay.failed(n.Addr, connect)
	if why := failure(); !strings.Contains(why, "it expects another AS of this edge") {
		t.Errorf("%q, want the AS", why)
	}
	h.read(receivedNotification, code(bgp.BGP_ERROR_CEASE, bgp.BGP_ERROR_SUB_PEER_DECONFIGURED))
	relay.failed(n.Addr, connect)
	if why := failure(); !strings.Contains(why, "nothing listens there") {
		t.Errorf("%q, want that nothing listens any more", why)
	}
}
