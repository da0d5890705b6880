package program

import (
	"runtime/debug"
	"strings"
	"testing"
)

// What the Go command records is told in the words of packages.
func TestVersionOf(t *testing.T) {
	dev := strings.TrimSpace(next) + "~dev"
	vcs := func(version, hash, modified string) *debug.BuildInfo {
		b := &debug.BuildInfo{Main: debug.Module{Version: version}}
		if hash != "" {
			b.Settings = []debug.BuildSetting{{Key: "vcs.revision", Value: hash}, {Key: "vcs.modified", Value: modified}}
		}
		return b
	}
	const hash = "0123456789abcdef0123456789abcdef01234567"
	for _, c := range []struct {
		build *debug.BuildInfo
		want  string
	}{
		{nil, dev},
		{vcs("(devel)", "", ""), dev},
		{vcs("v0.2.0", "", ""), "0.2.0"},
		{vcs("v0.2.0", hash, "false"), "0.2.0"},
		{vcs("v0.0.0-20261125221613-c30c2571abcd", "", ""), dev + "+gc30c2571abcd"},
		{vcs("v0.2.1-0.20261125221613-0123456789ab+dirty", hash, "true"), dev + "+g0123456789ab.dirty"},
		{vcs("(devel)", hash, "false"), dev + "+g0123456789ab"},
	} {
		if got := versionOf(c.build); got != c.want {
			t.Errorf("%+v: %s, want %s", c.build, got, c.want)
		}
	}
}
