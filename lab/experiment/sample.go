package experiment

import (
	"context"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
)

// sampled is a run of an instrument.
type sampled interface{ Sample() result.Sample }

// SampleOf is the sample of an instrument's run, or the run's error.
func SampleOf[T sampled](run T, err error) (result.Sample, error) {
	if err != nil {
		return result.Sample{}, err
	}
	return run.Sample(), nil
}

// Sleep waits so long, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Metrics of a sample beside measure's.
const (
	IdleBusy   = result.IdleBusy
	CsumErrors = "csum_errors"      // packets with a wrong checksum or header at any host
	DSACKs     = "tcp_dsacks"       // duplicate SACKs received
	Disordered = "tcp_out_of_order" // segments that waited for an earlier one
	SettleTime = 250 * time.Millisecond
)

// Settle lets the last sample's packets and processes end, and returns the
// share of all cores' time that was busy all the same.
func Settle(ctx context.Context, rest time.Duration) (float64, error) {
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

// InnerFamily is the IP version of what is measured.
const InnerFamily = 4

// BusyLimit is the share of busy time before a sample from which others use the
// machine so much that the figure is theirs too.
const BusyLimit = 0.2

// Failure is a sample that failed in a few words.
func Failure(s result.Sample) string { return "FAILED: " + strings.Join(strings.Fields(s.Error), " ") }
