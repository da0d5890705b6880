package observe

import (
	"fmt"
	"io"
	"strings"

	"github.com/selvage/selvage/internal/api"
)

// LiveApplied writes what a change of live objects did, or would do.
func LiveApplied(w Writer, info api.LiveInfo) error {
	var b strings.Builder
	changed := len(info.Changes) + info.Omitted
	switch {
	case changed == 0 && info.Applied:
		fmt.Fprintf(&b, "edge %s: it is so already\n", info.Edge)
	case changed == 0:
		fmt.Fprintf(&b, "edge %s: nothing would change\n", info.Edge)
	case !info.Applied:
		fmt.Fprintf(&b, "edge %s: %s; nothing is changed yet\n", info.Edge, counted(changed, "change", "changes"))
	default:
		fmt.Fprintf(&b, "edge %s: version %d of the live objects is in force, %s\n", info.Edge, info.Version, counted(changed, "change", "changes"))
	}
	listChanges(&b, info.Changes, info.Omitted, info.Effects, info.LeftOut)
	_, err := io.WriteString(w, b.String())
	return err
}

// LiveObjects writes one line for each live object.
func LiveObjects(w Writer, list api.LiveList) error {
	return table(w, "KIND NAME VERSION DURABLE BY OBJECT STATE", list.Objects, func(o api.LiveObject) []any {
		durable, state := "no", "in force"
		if o.Durable {
			durable = "yes"
		}
		if o.NotInForce != "" {
			state = "NOT in force: " + o.NotInForce
		}
		text := string(o.Object)
		const most = 100
		if !w.Wide && len(text) > most {
			text = text[:most] + "…"
		}
		return []any{o.Kind, o.Key, positive(int(o.Version)), durable, o.By, text, state}
	})
}

// liveObjects are those in the configuration in force, and where each comes from.
func liveObjects(b *strings.Builder, list []api.LiveObject) {
	if len(list) > 0 {
		b.WriteString("# Not in the file:\n")
	}
	for _, o := range list {
		origin := "by the alias of the interface"
		switch {
		case o.Version > 0 && o.Durable:
			origin = fmt.Sprintf("live, version %d by %s, durable", o.Version, o.By)
		case o.Version > 0:
			origin = fmt.Sprintf("live, version %d by %s, until a reboot", o.Version, o.By)
		}
		if o.NotInForce != "" {
			origin += ", NOT in force"
		}
		fmt.Fprintf(b, "#   %s %s (%s): %s\n", o.Kind, o.Key, origin, o.Object)
	}
}
