package transit

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/losses"
)

// What is missing has to be in a counter, and what counters name has to be missing.
func TestUnaccounted(t *testing.T) {
	for _, tt := range []struct {
		sent, got, lost uint64
		dropped         losses.Counts
		want            string
	}{
		{sent: 100, got: 100},
		{sent: 100, got: 90, lost: 10, dropped: losses.Counts{"a": 4, "b": 6}},
		{sent: 100, got: 90, lost: 10, dropped: losses.Counts{"a": 10, "arp": Strangers}},
		{sent: 100, got: 90, lost: 10, dropped: losses.Counts{"a": 9}, want: "1 of 10 lost frames are in no counter (9 a"},
		{sent: 100, got: 101, want: "101 frames arrived of 100"},
		{sent: 100, got: 100, dropped: losses.Counts{"a": Strangers + 1}, want: "name 65 drops (65 a), but 0 frames are missing"},
	} {
		p := Passage{Sent: gen.Sent{Frames: tt.sent}, Got: gen.Report{Frames: tt.got}, Lost: tt.lost, Dropped: tt.dropped}
		if got := p.why(true); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%+v: %q, want %q", tt, got, tt.want)
		}
	}
}
