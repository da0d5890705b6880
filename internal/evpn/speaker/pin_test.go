package speaker

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
)

// gobgp is the version whose log was read when this was written. With another one: see that the tests of this
// package pass, with FRR as well; look at what is new of docs/decisions/0025-gobgp-log.md; and set it here.
const gobgp = "v4.8.0"

// logged are the records that relay reads, with the keys and their kinds.
var logged = map[string]map[string]string{
	failedToConnect:      {"Error": "String"},
	receivedNotification: {"Code": "Int", "Subcode": "Int", "Data": "Any", "Communicated-Reason": "String"},
	sentNotification:     {"Code": "Int", "Subcode": "Int"},
	prefixLimit:          {"Family": "String", "Pct": "Int"},
	treatedAsWithdraw:    {"Error": "String"},
	receivedUpdate:       {"path_attributes": "Any"},
	malformedUpdate:      {"Error": "String"},
	malformedMessage:     {"Error": "String"},
	malformedHeader:      {"Error": "String"},
}

// GoBGP is of the version that is known, and its source logs each record that is read, with its keys.
func TestLogOfGoBGPIsAsRead(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-json", "github.com/osrg/gobgp/v4").Output()
	must(t, err)
	var module struct{ Dir, Version string }
	must(t, json.Unmarshal(out, &module))
	if module.Version != gobgp {
		t.Errorf("GoBGP is %s, and its log was read of %s: see the constant gobgp", module.Version, gobgp)
	}
	found := recordsOf(t, filepath.Join(module.Dir, "pkg", "server"))
	for message, keys := range logged {
		if found[message] == nil {
			t.Errorf("GoBGP %s does not log %q any more", module.Version, message)
			continue
		}
		for key, kind := range keys {
			if found[message][key] != kind {
				t.Errorf("GoBGP %s logs %q without the %s %s: it has %v", module.Version, message, kind, key, found[message])
			}
		}
	}
}

// recordsOf are the attributes of all records that a package logs, by message. Those of one message are joined.
func recordsOf(t *testing.T, dir string) map[string]map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	must(t, err)
	found := map[string]map[string]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		must(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 || !slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, selected(call)) {
				return true
			}
			message := text(call.Args[0])
			if found[message] == nil {
				found[message] = map[string]string{}
			}
			for _, arg := range call.Args[1:] {
				if attr, ok := arg.(*ast.CallExpr); ok && len(attr.Args) == 2 {
					found[message][text(attr.Args[0])] = selected(attr)
				}
			}
			return true
		})
	}
	return found
}

func selected(call *ast.CallExpr) string {
	if s, ok := call.Fun.(*ast.SelectorExpr); ok {
		return s.Sel.Name
	}
	return ""
}

func text(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok {
		return ""
	}
	s, _ := strconv.Unquote(lit.Value)
	return s
}

// GoBGP still does not know the community of RFC 9047, says so in the words that are looked for, and takes the
// route as withdrawn. When this fails mend.go may be no longer needed.
func TestGoBGPKnowsNoNDFlags(t *testing.T) {
	r := hostRoute(1)
	nlri, attrs, err := Encode(r)
	must(t, err)
	reach, err := bgp.NewPathAttributeMpReachNLRI(bgp.RF_EVPN, []bgp.PathNLRI{{NLRI: nlri}}, r.NextHop)
	must(t, err)
	unknown := bgp.NewUnknownExtended(bgp.EC_TYPE_EVPN, []byte{8, 1, 0, 0, 0, 0, 0})
	attrs = append([]bgp.PathAttributeInterface{reach}, attrs...)
	for _, a := range attrs {
		if extended, ok := a.(*bgp.PathAttributeExtendedCommunities); ok {
			extended.Value = append(extended.Value, unknown)
		}
	}
	b, err := bgp.NewBGPUpdateMessage(nil, attrs, nil).Serialize()
	must(t, err)
	_, err = bgp.ParseBGPMessage(b)
	if broken, ok := err.(*bgp.MessageError); !ok || !strings.Contains(err.Error(), unknownSubType) || broken.ErrorHandling != bgp.ERROR_HANDLING_TREAT_AS_WITHDRAW { //nolint:errorlint // as GoBGP's own
		t.Errorf("%T %v: want one that has the route taken as withdrawn, for an %s", err, err, unknownSubType)
	}
}

// mendedReport is a report whose next UPDATE is mended.
func mendedReport() handler {
	relay := newRelay(slog.New(slog.DiscardHandler))
	h := handler{relay: relay, of: relay.add(overlay.BGPNeighbour{Addr: frr4})}
	h.of.set(true)
	return h
}

// updateOf is what GoBGP logs of an UPDATE with n routes.
func updateOf(t *testing.T, n int) ([]bgp.NLRI, slog.Value) {
	t.Helper()
	nlri, _, err := Encode(hostRoute(1))
	must(t, err)
	list, paths := []bgp.NLRI{}, []bgp.PathNLRI{}
	for range n {
		own := *nlri.(*bgp.EVPNNLRI)
		list, paths = append(list, &own), append(paths, bgp.PathNLRI{NLRI: &own})
	}
	reach, err := bgp.NewPathAttributeMpReachNLRI(bgp.RF_EVPN, paths, frr4)
	must(t, err)
	return list, slog.AnyValue([]bgp.PathAttributeInterface{reach})
}

// What waits to be mended is bounded, and gone with its session.
func TestMendedIsBounded(t *testing.T) {
	h := mendedReport()
	for range mendedMost/1000 + 2 {
		_, shown := updateOf(t, 1000)
		h.of.mendNext()
		h.mend(h.of.conf, shown)
	}
	if n := len(h.of.mended); n != mendedMost {
		t.Errorf("%d routes wait, want %d", n, mendedMost)
	}
	h.of.set(false)
	if n := len(h.of.mended); n != 0 {
		t.Errorf("%d routes wait for a session that is over", n)
	}
	// GoBGP may log the first UPDATE of a session before it is known here to be up.
	list, shown := updateOf(t, 1)
	h.of.mendNext()
	h.mend(h.of.conf, shown)
	h.of.set(true)
	if h.of.taken(list[0]) == nil {
		t.Error("the first route of a session is not mended")
	}
	if h.of.taken(list[0]) != nil {
		t.Error("it is mended twice")
	}
}

// Mended routes count against maximumPrefixes: GoBGP does not have them. Those that are there may change.
func TestMendedCountsAsPrefixes(t *testing.T) {
	n := &neighbour{conf: overlay.BGPNeighbour{MaxPrefixes: 2}, mended: map[evpn.Key]*apiutil.Path{}}
	first, second, third := hostRoute(1).Key, hostRoute(2).Key, hostRoute(3).Key
	for _, key := range []evpn.Key{first, second} {
		if !n.mayMend(key, mostMended(n.conf)) {
			t.Errorf("no room for %v", key)
		}
		n.keep(key, &apiutil.Path{}, true)
	}
	if n.mayMend(third, mostMended(n.conf)) {
		t.Error("room for a third of two")
	}
	if !n.mayMend(first, mostMended(n.conf)) {
		t.Error("no room for one that is there")
	}
	if most := mostMended(overlay.BGPNeighbour{}); most != mendedMost {
		t.Errorf("without maximumPrefixes %d", most)
	}
}

// Without a word in the log the events of GoBGP have a reason.
func TestReasonOfEvents(t *testing.T) {
	conf := overlay.BGPNeighbour{Name: "rr", AS: 65001}
	for reason, want := range map[api.PeerState_DisconnectReason]string{
		api.PeerState_DISCONNECT_REASON_HOLD_TIMER_EXPIRED:    "silent for longer",
		api.PeerState_DISCONNECT_REASON_NOTIFICATION_RECEIVED: "it ended the session: why",
		api.PeerState_DISCONNECT_REASON_HARD_RESET:            "it ended the session: why",
		api.PeerState_DISCONNECT_REASON_NOTIFICATION_SENT:     "this edge ended the session: why",
		api.PeerState_DISCONNECT_REASON_BAD_PEER_AS:           "its AS is not 65001",
		api.PeerState_DISCONNECT_REASON_READ_FAILED:           "the connection was lost",
		api.PeerState_DISCONNECT_REASON_GRACEFUL_RESTART:      "the connection was lost",
	} {
		if got := reasonOf(conf, apiutil.PeerState{DisconnectReason: reason, DisconnectMessage: "why"}); !strings.Contains(got, want) {
			t.Error(fmt.Sprint(reason), got)
		}
	}
}
