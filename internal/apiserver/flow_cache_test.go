package apiserver

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/alarm"
)

// The words for events are those of the data path.
func TestEventsAreThoseOfTheDataPath(t *testing.T) {
	header, err := os.ReadFile("../../bpf/core/reasons.h")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(header), "#define EVENTS(X)")
	list, _, _ = strings.Cut(list, "\n\n")
	for _, e := range slices.Concat(alarm.CacheEvents, firewallEvents, natEvents) {
		name := strings.ReplaceAll(strings.ToUpper(e.Name), "-", "_")
		if !regexp.MustCompile(`X\(` + name + `,\s*"` + regexp.QuoteMeta(e.Description) + `"\)`).MatchString(list) {
			t.Errorf("bpf/core/reasons.h has no event %s %q", name, e.Description)
		}
	}
}
