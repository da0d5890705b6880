// Package report draws a result for people: one HTML file and one table for a
// terminal.
//
// Its invariant: output is a function of the result alone. Clock, host and
// version come from the result, so the same result gives the same bytes, and the
// file asks no network for anything (its content security policy forbids it).
// Do not compute figures here; that is stats, and judging them is diagnose.
package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Templates: what all pages share, and a page for each experiment.
var (
	//go:embed shared.html
	shared string
	//go:embed page.html
	abPage string
	//go:embed mtu.html
	mtuPage string
	//go:embed rfc2544.html
	transitPage string
	//go:embed cache.html
	cachePage string
	//go:embed offload.html
	offloadPage string
	//go:embed firewall_latency.html
	policedPage string
	//go:embed failover.html
	failoverPage string
	//go:embed converge.html
	convergePage string
	//go:embed attack.html
	attackPage string
	//go:embed egress.html
	egressPage string
)

// HTML writes r as one self-contained page. It errors when r is not of this
// version's schema or holds figures that JSON cannot carry, since the page
// carries the result itself; nothing is written then.
func HTML(w io.Writer, r result.Result) error {
	v := newView(r)
	page, data := abPage, any(v)
	switch r.Experiment {
	case stats.MTU:
		page, data = mtuPage, mtuView{v}
	case stats.RFC2544:
		page, data = transitPage, transitView{v}
	case stats.Cache:
		page, data = cachePage, cacheView{v}
	case stats.Latency:
		page, data = policedPage, newPolicedView(v)
	case stats.Failover:
		page, data = failoverPage, failoverView{v}
	case stats.Converge:
		page, data = convergePage, convergeView{v}
	case stats.Attack:
		page, data = attackPage, attackView{v}
	case stats.Egress:
		page, data = egressPage, egressView{v}
	case stats.Offload:
		page, data = offloadPage, newOffloadView(v)
	}
	t, err := template.New("page").Parse(shared + page)
	if err != nil {
		return fmt.Errorf("parse report page: %w", err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, data); err != nil {
		return fmt.Errorf("draw report: %w", err)
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
