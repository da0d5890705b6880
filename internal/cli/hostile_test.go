package cli

import (
	"bytes"
	"encoding"
	"encoding/json"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/printable"
)

// hostile has what a terminal acts on, and begins a line of its own.
const hostile = "x\x1b]0;t\a\u009b2J\u202e\ninvented"

// fill gives a document one entry of each list, and a text wherever it takes one.
func fill(v reflect.Value, text string, depth int) {
	if _, own := v.Addr().Interface().(encoding.TextUnmarshaler); own || depth > 8 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text, depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text, depth+1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, text, depth+1)
		fill(value, text, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Interface:
		v.Set(reflect.ValueOf(text))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), text, depth+1)
			}
		}
	}
}

// Whatever an edge says, nothing acts on the terminal and no line is invented.
func TestHostileTexts(t *testing.T) {
	documents := map[string]any{
		"status": &api.Status{}, "ports": &[]api.PortInfo{}, "interfaces": &[]api.InterfaceInfo{}, "teps": &[]api.TEPInfo{}, "fdb": &[]api.FDBEntry{},
		"neighbours": &[]api.NeighbourInfo{}, "routes": &[]api.RouteInfo{}, "flows": &[]api.FlowInfo{}, "flow-cache": &api.FlowCacheInfo{}, "drops": &[]api.DropInfo{},
		"limits": &[]api.LimitInfo{}, "rules": &[]api.RuleInfo{}, "firewall": &api.FirewallInfo{}, "sessions": &api.SessionList{}, "bgp": &api.BGPInfo{},
		"bgp/routes": &[]api.BGPRouteInfo{}, "bgp/moves": &api.BGPMovesInfo{}, "egress": &api.EgressInfo{}, "nat": &api.NATInfo{}, "nat/sessions": &api.NATSessionList{},
		"events": &api.EventList{}, "live": &api.LiveList{}, "log": &api.LogInfo{}, "config/history": &[]api.RevisionInfo{},
	}
	dir, text, asked := t.TempDir(), "", map[string]bool{}
	socket, err := net.Listen("unix", api.SocketPath(dir, "e"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, "/v1/")
		document := documents[path]
		if document == nil {
			w.WriteHeader(http.StatusInternalServerError)
			document = &map[string]string{"error": text}
		} else {
			asked[path] = true
			fill(reflect.ValueOf(document).Elem(), text, 0)
		}
		w.Header().Set(api.MatchedHeader, "1")
		_ = json.NewEncoder(w).Encode(document)
	})}
	go func() { _ = server.Serve(socket) }()
	t.Cleanup(func() { server.Close() })
	for _, command := range []string{
		"status", "ports", "interfaces", "teps", "fdb", "neighbours", "routes", "flows", "flows --stats", "drops", "limits", "rules", "sessions", "sessions --stats",
		"bgp", "bgp neighbours", "bgp routes", "bgp moves", "egress", "egress policies", "nat", "nat --stats", "events", "live", "log level", "history", "metrics", "show",
	} {
		for _, format := range []string{"table", "wide", "json"} {
			var printed []string
			for _, text = range []string{hostile, printable.Line(hostile)} {
				var out bytes.Buffer
				Main(append(strings.Fields(command), "--runtime-dir="+dir, "--edge=e", "--output="+format), &out, &out)
				printed = append(printed, out.String())
			}
			bad := strings.IndexFunc(printed[0], func(r rune) bool { return r != '\n' && (unicode.IsControl(r) || r == '\u202e') })
			if bad >= 0 || format != "json" && printed[0] != printed[1] {
				t.Errorf("%s -o %s, at byte %d:\n%s\nof harmless texts:\n%s", command, format, bad, printed[0], printed[1])
			}
		}
	}
	for path := range documents {
		if !asked[path] {
			t.Errorf("no command asks for %s", path)
		}
	}
}
