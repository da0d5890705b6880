package support

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/doctor"
	"github.com/selvage/selvage/internal/observe"
)

// lastEvents of each edge are in the summary.
const lastEvents = 40

// summary is what a support engineer reads first.
func (c *collector) summary(o Options, list []*asked, at time.Time, took time.Duration) string {
	var out strings.Builder
	fmt.Fprintf(&out, "Selvage support archive of %s, made at %s by %s in %s\n", o.Host, at.UTC().Format(time.RFC3339), o.Version, took.Round(time.Millisecond))
	if c.hide.names != nil {
		fmt.Fprintln(&out, "Addresses, MAC addresses and the names of host and user are pseudonyms.")
	}
	if len(list) == 0 {
		fmt.Fprintln(&out, "\nNo edge runs here, and none has left a data path.")
	}
	for _, a := range list {
		c.summaryOf(o, &out, a)
	}
	var report doctor.Report
	fmt.Fprintln(&out, "\nDoctor")
	if json.Unmarshal([]byte(c.find("doctor.json")), &report) != nil {
		fmt.Fprintln(&out, "  has not answered")
	}
	for _, f := range report.Findings {
		if f.Severity != doctor.OK {
			fmt.Fprintf(&out, "  %s: %s: %s\n", f.Severity, f.Title(), f.What)
		}
	}
	fmt.Fprintln(&out, "\nCould not be had")
	for _, item := range c.sorted() {
		if item.Error != "" {
			fmt.Fprintf(&out, "  %s: %s\n", item.Name, firstLine(item.Error))
		}
	}
	return out.String()
}

func (c *collector) summaryOf(o Options, out *strings.Builder, a *asked) {
	fmt.Fprintf(out, "\nEdge %s\n", a.Name)
	if a.status.Name == "" {
		fmt.Fprintf(out, "  %v\n", a.err)
	} else {
		fmt.Fprintf(out, "  %s, version %s, up %s\n", strings.ToUpper(string(a.status.Verdict)), a.status.Version, upFor(a.status))
	}
	for _, p := range a.status.Problems {
		fmt.Fprintf(out, "  %s: %s\n", p.Severity, p.Text)
	}
	events := c.events(o, a.Name)
	fmt.Fprintf(out, "\nLast events of %s\n", a.Name)
	for _, e := range events[max(0, len(events)-lastEvents):] {
		var line bytes.Buffer
		if observe.Event(observe.Writer{Writer: &line}, e) == nil {
			fmt.Fprintf(out, "  %s", line.String())
		}
	}
}

func upFor(s api.Status) string {
	if s.Started.IsZero() {
		return "not"
	}
	return time.Since(s.Started).Round(time.Second).String()
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

var page = template.Must(template.New("page").Parse(`<!doctype html>
<meta charset="utf-8"><title>Selvage support archive</title>
<style>body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}pre{white-space:pre-wrap;background:#f6f6f6;padding:1rem}
table{border-collapse:collapse}td,th{text-align:left;padding:.15rem .8rem .15rem 0;border-bottom:1px solid #ddd}.bad{color:#a00}</style>
<h1>Selvage support archive</h1>
<pre>{{.Summary}}</pre>
<h2>Items</h2>
<table><tr><th>File</th><th>Of</th><th>Bytes</th><th>ms</th><th></th></tr>
{{range .Items}}<tr><td>{{if .Bytes}}<a href="{{.Name}}">{{.Name}}</a>{{else}}{{.Name}}{{end}}</td><td>{{.Source}}</td><td>{{.Bytes}}</td><td>{{.Millis}}</td>
<td>{{if .Truncated}}cut off {{end}}<span class="bad">{{.Error}}</span></td></tr>
{{end}}</table>
`))

func html(summary string, items []Item) ([]byte, error) {
	var out bytes.Buffer
	err := page.Execute(&out, map[string]any{"Summary": summary, "Items": items})
	return out.Bytes(), err
}
