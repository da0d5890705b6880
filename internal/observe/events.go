package observe

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/printable"
)

// eventTime is how times of events are shown.
const eventTime = "2006-01-02T15:04:05.000Z07:00"

// Event prints one as a line: time, severity, kind, object, text, further fields, and who asked. Wide adds its number.
func Event(w Writer, e event.Event) error {
	var line strings.Builder
	if w.Wide {
		fmt.Fprintf(&line, "%6d  ", e.Number)
	}
	fmt.Fprintf(&line, "%s  %-7s  %-17s  ", e.Time.UTC().Format(eventTime), e.Severity, e.Kind)
	if e.Object.Name != "" {
		fmt.Fprintf(&line, "%s: ", e.Object)
	}
	line.WriteString(e.Text)
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		if name == e.Object.Type || name == "by" {
			continue
		}
		value := fmt.Sprint(e.Fields[name])
		if strings.ContainsAny(value, " ,()") || value == "" {
			value = fmt.Sprintf("%q", value)
		}
		fields = append(fields, name+"="+value)
	}
	if len(fields) > 0 {
		fmt.Fprintf(&line, " (%s)", strings.Join(fields, ", "))
	}
	if e.By != nil {
		fmt.Fprintf(&line, " by %s", *e.By)
	}
	_, err := fmt.Fprintln(w, printable.Line(line.String()))
	return err
}

// MissedEvents prints how many were missed.
func MissedEvents(w io.Writer, missed uint64) error {
	_, err := fmt.Fprintf(w, "… %d events are no longer kept\n", missed)
	return err
}
