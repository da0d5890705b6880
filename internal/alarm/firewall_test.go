package alarm

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
)

// What is lost is told once, when it happens.
func TestLostIsReportedOnce(t *testing.T) {
	fw := overlay.Firewall{Sizes: overlay.ConnectionSizes{Connections: 1000, HalfOpen: 100}}
	first := FirewallReading{events: map[string]uint64{"conntrack-full": 5, "log-lost": 5}}
	first.evaluate(FirewallReading{}, fw)
	if len(first.Problems) != 0 {
		t.Errorf("what was before the first reading: %q", first.Problems)
	}
	next := FirewallReading{events: map[string]uint64{"conntrack-full": 6, "log-lost": 8}}
	next.evaluate(first, fw)
	if len(next.Problems) != 2 || !strings.Contains(next.Problems[1].Text, "3 log lines") {
		t.Errorf("problems %q", next.Problems)
	}
	again := FirewallReading{events: next.events}
	again.evaluate(next, fw)
	if len(again.Problems) != 0 {
		t.Errorf("nothing more happened: %q", again.Problems)
	}
}
