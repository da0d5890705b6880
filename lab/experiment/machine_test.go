package experiment

import (
	"testing"

	"github.com/selvage/selvage/lab/result"
)

func TestTurbo(t *testing.T) {
	for _, tt := range []struct {
		disabled, boost string
		want            result.Value
	}{
		{"1", NotVisible, result.Bool(false)}, {"0", NotVisible, result.Bool(true)}, {NotVisible, "1", result.Bool(true)},
		{NotVisible, "0", result.Bool(false)}, {NotVisible, NotVisible, result.Text(NotVisible)},
	} {
		if got := turbo(tt.disabled, tt.boost); got.Value != tt.want {
			t.Errorf("no_turbo %s, boost %s: %v, want %v", tt.disabled, tt.boost, got, tt.want)
		}
	}
}
