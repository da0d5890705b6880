package apiserver

import (
	"testing"

	"github.com/selvage/selvage/internal/datapath"
)

// A session is slow as soon as one direction is.
func TestSessionPath(t *testing.T) {
	fast, slow := datapath.Cached{Known: true, Fast: true}, datapath.Cached{Known: true, Why: "flooded"}
	for _, tt := range []struct {
		ways      [2]datapath.Cached
		path, why string
	}{
		{[2]datapath.Cached{}, "idle", ""}, {[2]datapath.Cached{fast, {}}, "fast", ""}, {[2]datapath.Cached{fast, fast}, "fast", ""},
		{[2]datapath.Cached{fast, slow}, "slow", "flooded"}, {[2]datapath.Cached{slow, {}}, "slow", "flooded"},
	} {
		if path, why := sessionPath(tt.ways); path != tt.path || why != tt.why {
			t.Errorf("%+v: %s, %q", tt.ways, path, why)
		}
	}
}
