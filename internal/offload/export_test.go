package offload

import (
	"os"

	"golang.org/x/sys/unix"
)

// setns has the calling thread enter a network namespace.
func setns(ns *os.File) error { return unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET) }
