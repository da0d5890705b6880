package experiments

import (
	"context"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
)

// Metrics of a sample beside measure's.
const (
	idleBusy   = "idle_busy"        // share of all cores' time that was busy just before the sample, 0 … 1
	csumErrors = "csum_errors"      // packets with a wrong checksum or header at any host
	dsacks     = "tcp_dsacks"       // duplicate SACKs received
	disordered = "tcp_out_of_order" // segments that waited for an earlier one
	settleTime = 250 * time.Millisecond
)

// settle lets the last sample's packets and processes end, and returns the
// share of all cores' time that was busy all the same.
func settle(ctx context.Context, rest time.Duration) (float64, error) {
	before, err := measure.ReadCPU()
	if err != nil {
		return 0, err
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(rest):
	}
	after, err := measure.ReadCPU()
	if err != nil {
		return 0, err
	}
	spent, busy := after.Since(before), 0.0
	for _, core := range spent.Cores {
		busy += (core.User + core.System + core.SoftIRQ) / float64(len(spent.Cores))
	}
	return busy, nil
}

// innerFamily is the IP version of what is measured.
const innerFamily = 4

// busyLimit is the share of busy time before a sample from which others use the
// machine so much that the figure is theirs too.
const busyLimit = 0.2

// failure is a sample that failed in a few words.
func failure(s result.Sample) string { return "FAILED: " + strings.Join(strings.Fields(s.Error), " ") }
