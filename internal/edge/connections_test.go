package edge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/api"
)

// A question by what a table does not know is a mistake, not an answer about all.
func TestForeignFields(t *testing.T) {
	w := newEgressWorld(newWorld(t).guarded()).translating()
	c, _ := w.run()
	for path, want := range map[string]string{
		"sessions?policy=web": `no parameter "policy"`, "sessions?router=tenant": `no parameter "router"`,
		"nat/sessions?port=p0": `no parameter "port"`, "nat/sessions?rule=app": `no parameter "rule"`,
	} {
		if _, err := api.Fetch[api.ConnectionList[struct{}]](t.Context(), c, path); err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
