package config

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Whatever a value of the examples is mistaken for, or where one is missing, there are
// problems with positions and nothing worse.
func TestMangled(t *testing.T) {
	for _, name := range []string{"egress.yaml", "evpn.yaml", "evpn-uplink.yaml"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile("../../examples/" + name)
			if err != nil {
				t.Fatal(err)
			}
			every, n := 1, 0
			if testing.Short() {
				every = 5 // which is no divisor of the values
			}
			mangle(string(text), func(text string) {
				if n++; n%every == 0 {
					parseMangled(t, text)
				}
			})
		})
	}
}

func parseMangled(t *testing.T, text string) {
	t.Helper()
	_, err := Parse("f", []byte(text))
	var list Errors
	if err != nil && !errors.As(err, &list) {
		t.Fatalf("%T %v of\n%s", err, err, text)
	}
	for _, one := range list {
		if one.Line < 1 || one.Column < 1 || one.Message == "" {
			t.Fatalf("%#v of\n%s", one, text)
		}
	}
}

// mangle calls visit with text without each of its lines, and with each of its values
// replaced.
func mangle(text string, visit func(string)) {
	lines := strings.SplitAfter(text, "\n")
	for i := range lines {
		visit(strings.Join(slices.Concat(lines[:i], lines[i+1:]), ""))
	}
	for _, at := range regexp.MustCompile(`: ("[^"]*"|\[[^\]]*\]|[^ ,\]}\n]+)|[\[,] ?("[^"]*"|[^ ,\]}\n]+)`).FindAllStringSubmatchIndex(text, -1) {
		begin, end := max(at[2], at[4]), max(at[3], at[5])
		for _, instead := range []string{"{}", "[]", "0", "x", "null", `""`, "gw1", "10.0.0.5", "203.0.113.30-203.0.113.31", `"::1"`, "65000:1", `"65000:1"`} {
			visit(text[:begin] + instead + text[end:])
		}
	}
}
