package speaker

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"github.com/selvage/selvage/internal/overlay"
)

// unreachable is why no connection to a neighbour was made, and what to do.
func unreachable(n overlay.BGPNeighbour, err error) string {
	// The words of the system, without those of addresses that the operator knows.
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		err = op.Err
	}
	why := err.Error()
	text, fix := why, "check the network path to it"
	switch {
	case strings.Contains(why, "connection refused"):
		text, fix = "nothing listens there", fmt.Sprintf("start BGP at %s, or set its port; a Selvage edge listens only with spec.bgp.listen, "+
			"which one of two edges needs", n.Addr)
	case strings.Contains(why, "assign requested address"):
		fix = fmt.Sprintf("localAddress %s is none of this host's", n.Local)
	case strings.Contains(why, "timeout") && n.Password != "":
		fix = "check the network path to it, and whether both ends have the same password"
	case strings.Contains(why, "timeout") && (n.Security || n.Hops > 0):
		fix = "check the network path to it, and whether it is longer than the configured hops"
	case strings.Contains(why, "no route to host"), strings.Contains(why, "unreachable"):
		fix = "the host has no way there: look at its addresses and routes"
	}
	return fmt.Sprintf("no connection to %s: %s: %s", n.Addr, text, fix)
}

// notification is what an error code of BGP means (RFC 4271 section 4.5, RFC 4486), and what
// to do.
func notification(n overlay.BGPNeighbour, code, subCode uint8, advertised string, sent bool) string {
	name := bgp.NewNotificationErrorCode(code, subCode).String()
	name = strings.ReplaceAll(strings.TrimPrefix(name, "code "), "_", " ")
	fix := fixes[[2]uint8{code, subCode}]
	switch {
	case sent && code == bgp.BGP_ERROR_OPEN_MESSAGE_ERROR && subCode == bgp.BGP_ERROR_SUB_BAD_PEER_AS:
		fix = fmt.Sprintf("its AS is not %d: set as of neighbour %s", n.AS, n.Name)
	case sent && code == bgp.BGP_ERROR_FSM_ERROR:
		fix = fmt.Sprintf("it answered with something else than an OPEN: its configuration refuses AS or address of this edge, or has none of neighbour %s's families", n.Name)
	case code == bgp.BGP_ERROR_OPEN_MESSAGE_ERROR && fix == "":
		fix = "compare families, timers and password with its configuration"
	}
	parts := []string{name}
	for _, part := range []string{advertised, fix} {
		if part != "" && part != "<nil>" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// reasonOf is why a session ended by the events of GoBGP, which say less than its log: with graceful restart
// nothing of a notification.
func reasonOf(n overlay.BGPNeighbour, s apiutil.PeerState) string {
	const lost = "the connection was lost: look at its process, and the way there"
	switch s.DisconnectReason {
	case api.PeerState_DISCONNECT_REASON_HOLD_TIMER_EXPIRED:
		return silentFor(n)
	case api.PeerState_DISCONNECT_REASON_NOTIFICATION_RECEIVED, api.PeerState_DISCONNECT_REASON_HARD_RESET:
		return "it ended the session: " + s.DisconnectMessage
	case api.PeerState_DISCONNECT_REASON_NOTIFICATION_SENT, api.PeerState_DISCONNECT_REASON_INVALID_MSG:
		return "this edge ended the session: " + s.DisconnectMessage
	case api.PeerState_DISCONNECT_REASON_BAD_PEER_AS:
		return notification(n, bgp.BGP_ERROR_OPEN_MESSAGE_ERROR, bgp.BGP_ERROR_SUB_BAD_PEER_AS, "", true)
	}
	return lost
}

func silentFor(n overlay.BGPNeighbour) string {
	return fmt.Sprintf("it was silent for longer than the hold time of %s: check the network path to it, and at its process", n.Timers.Hold)
}

// fixes are what to do about codes and sub-codes of a neighbour.
var fixes = map[[2]uint8]string{
	{bgp.BGP_ERROR_OPEN_MESSAGE_ERROR, bgp.BGP_ERROR_SUB_BAD_PEER_AS}:           "it expects another AS of this edge: compare bgp.as with its configuration",
	{bgp.BGP_ERROR_OPEN_MESSAGE_ERROR, bgp.BGP_ERROR_SUB_BAD_BGP_IDENTIFIER}:    "both have the same router ID: set bgp.routerID",
	{bgp.BGP_ERROR_HOLD_TIMER_EXPIRED, 0}:                                       "check the network path to it, and at the load of both ends",
	{bgp.BGP_ERROR_CEASE, bgp.BGP_ERROR_SUB_MAXIMUM_NUMBER_OF_PREFIXES_REACHED}: "this edge advertises more prefixes than it takes",
	{bgp.BGP_ERROR_CEASE, bgp.BGP_ERROR_SUB_PEER_DECONFIGURED}:                  "this edge is not in its configuration any more, or its process was stopped",
	{bgp.BGP_ERROR_CEASE, bgp.BGP_ERROR_SUB_HARD_RESET}:                         "this edge is not in its configuration any more, or somebody reset the session there",
	{bgp.BGP_ERROR_CEASE, bgp.BGP_ERROR_SUB_ADMINISTRATIVE_SHUTDOWN}:            "it was shut down there",
}

// unanswered is what there is to say of a neighbour that takes connections, and no more.
func unanswered(n overlay.BGPNeighbour) string {
	fix := "look at its log, and whether it knows this edge's address"
	if n.Security {
		fix = "look whether ttlSecurity is set at both ends, and how many hops there are"
	}
	return fmt.Sprintf("%s takes connections, and does not answer on them: %s", n.Addr, fix)
}
