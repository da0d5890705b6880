// Package monitoring tests what Prometheus and Grafana see of real edges: that alerts fire, and that no panel of a
// dashboard is empty.
package monitoring

import (
	"testing"

	"github.com/selvage/selvage/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
