// Command write writes the dashboards as the JSON files that Grafana imports.
package main

import (
	"fmt"
	"os"

	"github.com/selvage/selvage/deploy/grafana"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: write DIR")
		os.Exit(2)
	}
	if err := grafana.Write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "write:", err)
		os.Exit(1)
	}
}
