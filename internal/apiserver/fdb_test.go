package apiserver

import (
	"testing"
)

func TestPortOfQuery(t *testing.T) {
	for _, tt := range []struct {
		name string
		want bool
	}{{"p0", true}, {"p0.10", true}, {"p01", false}, {"", false}, {"xp0", false}} {
		if got := isPort(tt.name, "p0"); got != tt.want {
			t.Errorf("%q is of p0: %v", tt.name, got)
		}
	}
}
