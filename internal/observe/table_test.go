package observe

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/api"
)

// long makes every text, address and number of a document as long as it is with real networks:
// IPv6 addresses that cannot be shortened, names of 15 characters, reasons of a sentence.
func long(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		long(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			long(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		long(key)
		long(value)
		v.SetMapIndex(key, value)
	case reflect.Array:
		for i := range v.Len() {
			long(v.Index(i))
		}
	case reflect.String:
		v.SetString("web-frontend-01")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(0.123456)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(1_234_567)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(250)
	case reflect.Uint64:
		v.SetUint(98_765_432_101)
	case reflect.Struct:
		longStruct(v)
	}
}

func longStruct(v reflect.Value) {
	text := map[string]string{
		"netip.Addr": "2001:db8:1234:5678:a8bb:ccff:fedd:eeff", "netip.AddrPort": "[2001:db8:1234:5678:a8bb:ccff:fedd:eeff]:54321",
		"netip.Prefix": "2001:db8:1234:5678:a8bb:ccff:fedd:ee00/120", "time.Time": "2026-03-04T05:06:07Z",
	}[v.Type().String()]
	if text != "" {
		if err := v.Addr().Interface().(interface{ UnmarshalText([]byte) error }).UnmarshalText([]byte(text)); err != nil {
			panic(err)
		}
		return
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		long(v.Field(i))
		switch f.Name {
		case "Why", "Detail", "Matches", "Description", "Cause", "Fix", "HookWhy", "RedirectWhy":
			if v.Field(i).Kind() != reflect.String {
				continue
			}
			v.Field(i).SetString("no packet for 150ms: check that both ends may send UDP port 4784 and that nothing on the way drops it")
		case "Proto":
			v.Field(i).SetString("icmpv6")
		case "State":
			if v.Field(i).Kind() == reflect.String {
				v.Field(i).SetString("established")
			}
		}
	}
}

func longOf[T any](write func(Writer, T) error) func(Writer) error {
	return func(w Writer) error {
		var document T
		long(reflect.ValueOf(&document).Elem())
		return write(w, document)
	}
}

// every is what writes a document in words.
func every() map[string]func(Writer) error {
	return map[string]func(Writer) error{
		"status": longOf(func(w Writer, s api.Status) error { return Status(w, s, started.Add(time.Hour)) }),
		"ports":  longOf(Ports), "interfaces": longOf(Interfaces), "teps": longOf(TEPs), "fdb": longOf(FDB), "neighbours": longOf(Neighbours),
		"routes": longOf(Routes), "flows": longOf(Flows), "flow cache": longOf(FlowCache),
		"drops":         longOf(func(w Writer, d []api.DropInfo) error { return Drops(w, d, true) }),
		"drops by port": longOf(func(w Writer, d []api.OwnerDropInfo) error { return OwnerDrops(w, "port", d) }),
		"limits":        longOf(func(w Writer, l []api.LimitInfo) error { return Limits(w, l, true) }),
		"rules":         longOf(Rules), "what-if": longOf(WhatIf), "sessions": longOf(Sessions), "top sessions": longOf(TopSessions), "firewall": longOf(Firewall),
		"egress": longOf(Egress), "gateways": longOf(Gateways), "nat": longOf(NATSessions), "top nat": longOf(TopNATSessions), "port usage": longOf(Pressures), "nat stats": longOf(NAT),
		"bgp": longOf(BGP), "bgp neighbour": longOf(BGPNeighbour), "bgp routes": longOf(BGPRoutes), "bgp moves": longOf(BGPMoves), "prove": longOf(Prove),
	}
}

func TestTablesFitInALine(t *testing.T) {
	for name, write := range every() {
		var got bytes.Buffer
		if err := write(Writer{Writer: &got}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(got.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > lineWidth {
				t.Errorf("%s: %d characters, at most %d: %s", name, n, lineWidth, line)
			}
		}
		if testing.Verbose() {
			t.Logf("%s:\n%s", name, got.String())
		}
	}
}

// A wide table has each row on one line, and all that the other has.
func TestWideTables(t *testing.T) {
	rows := longOf(Sessions)
	var wide, narrow bytes.Buffer
	if err := rows(Writer{Writer: &wide, Wide: true}); err != nil {
		t.Fatal(err)
	}
	if err := rows(Writer{Writer: &narrow}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(wide.String(), "\n"); n != 5 { // header, two rows, an empty line and the sum
		t.Errorf("%d lines:\n%s", n, wide.String())
	}
	for column := range strings.FieldsSeq(strings.SplitN(narrow.String(), "\n", 2)[0]) {
		if !strings.Contains(wide.String(), column) {
			t.Errorf("the wide table has no column %s", column)
		}
	}
	if first, _, _ := strings.Cut(wide.String(), "\n"); !strings.Contains(first, "ORIG-PACKETS") || strings.Contains(narrow.String(), "ORIG-PACKETS") {
		t.Errorf("packets are not in the wide table alone:\n%s", first)
	}
}

func TestNarrowedCells(t *testing.T) {
	type row struct{ a, b string }
	var got bytes.Buffer
	words := strings.TrimSpace(strings.Repeat("word ", 30))
	err := table(Writer{Writer: &got}, "A B +C", []row{{"x", words}, {"", "short"}}, func(r row) []any { return []any{r.a, r.b, "c"} })
	want := "A  B\n" +
		"x  " + strings.TrimSpace(strings.Repeat("word ", 23)) + "\n" +
		"   " + strings.TrimSpace(strings.Repeat("word ", 7)) + "\n" +
		"-  short\n"
	if diff := cmp.Diff(want, got.String()); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, tt := range []struct {
		text       string
		width      int
		part, rest string
	}{
		{"all of it", 9, "all of it", ""},
		{"all of it", 8, "all of", "it"},
		{"[2001:db8::1]:443", 14, "[2001:db8::1]", ":443"},
		{"2001:db8::1", 6, "2001:", "db8::1"},
		{"unbreakable", 4, "unbr", "eakable"},
		{"a,b;c", 3, "a,", "b;c"},
	} {
		if part, rest := cut(tt.text, tt.width); part != tt.part || rest != tt.rest {
			t.Errorf("cut(%q, %d) = %q, %q, want %q, %q", tt.text, tt.width, part, rest, tt.part, tt.rest)
		}
	}
}

func BenchmarkTable(b *testing.B) {
	list := make([]api.FlowInfo, 10_000)
	for i := range list {
		list[i] = flows()[i%len(flows())]
	}
	for b.Loop() {
		if err := Flows(Writer{Writer: io.Discard}, list); err != nil {
			b.Fatal(fmt.Errorf("flows: %w", err))
		}
	}
}
