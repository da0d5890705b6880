package cli

import (
	"context"
	"errors"

	"github.com/selvage/selvage/internal/doctor"
	"github.com/selvage/selvage/lab/preflight"
)

// examineHosts hands other hosts over to the lab, which has the ways to them. It is all that the doctor needs of the lab.
func examineHosts(ctx context.Context, f doctor.HostFlags, output string, s *streams) error {
	console := &preflight.Console{Out: s.out, Err: s.err, Version: version(), Password: s.onePassword()}
	err := (&preflight.Command{HostFlags: f, Output: output}).Run(ctx, console)
	var usage preflight.UsageError
	if errors.As(err, &usage) {
		return usageError{usage}
	}
	return err
}
