// The runtime need not look each second how many cores a control group allows: an idle edge has nothing else to do then.
//
//go:debug updatemaxprocs=0

// Command selvage runs an overlay network edge, asks it and examines hosts.
package main

import (
	"os"

	"github.com/selvage/selvage/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
