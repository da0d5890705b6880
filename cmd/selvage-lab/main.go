// Command selvage-lab measures what overlays cost. selvage lab starts it.
package main

import (
	"os"

	"github.com/selvage/selvage/lab/cli"
)

func main() { os.Exit(cli.Main(os.Args, os.Stdout, os.Stderr)) }
