package speaker

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"

	"github.com/selvage/selvage/internal/overlay"
)

// gobgp is the version whose log was read when this was written. With another one: see that the tests of this
// package pass, with FRR as well; look at what is new of docs/decisions/0025-gobgp-log.md; and set it here.
const gobgp = "v4.8.0"

// logged are the records that relay reads, with the keys and their kinds.
var logged = map[string]map[string]string{
	receivedNotification: {"Code": "Int", "Subcode": "Int", "Data": "Any", "Communicated-Reason": "String"},
	sentNotification:     {"Code": "Int", "Subcode": "Int"},
	prefixLimit:          {"Family": "String", "Pct": "Int"},
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
