package fix

import (
	"fmt"
	"slices"
	"strings"
)

// Script is what is known of the host that a script is for.
type Script struct {
	Place string // as the user names it
	Host  string // its name, as uname -n says
	Taken string // when its settings were read
	// Carriers are interfaces that carry the SSH session: what may interrupt them is left out.
	Carriers []string
	Fixes    []Fix
	// ByHand is advice that is no setting or no clear one, a line each.
	ByHand []string
}

// String is the script: with apply it makes the changes, with revert it restores what was before. It refuses another
// host.
func (s Script) String() string {
	var b strings.Builder
	b.WriteString("#!/bin/sh\n")
	for _, line := range []string{
		"Changes that selvage doctor proposes for " + s.Place + ", whose settings it read at " + s.Taken + ".",
		"Nothing of this has been run. Change one thing at a time and measure: sh FILE apply, sh FILE revert.",
		"Commands last until the next boot.",
	} {
		comment(&b, line)
	}
	fixes, kept := s.allowed()
	fmt.Fprintf(&b, "\nset -u\nhost=%s\nfailed=0\n\n", Quote(s.Host))
	if slices.ContainsFunc(fixes, func(f Fix) bool { return f.Do.File == "" || f.Undo.File == "" }) {
		b.WriteString("run() {\n\techo \"+ $*\"\n\t\"$@\" || failed=1\n}\n\n")
	}
	if slices.ContainsFunc(fixes, func(f Fix) bool { return f.Do.File != "" || f.Undo.File != "" }) {
		b.WriteString("write() {\n\techo \"+ echo $1 > $2\"\n\techo \"$1\" >\"$2\" || failed=1\n}\n\n")
	}
	function(&b, "apply", fixes, func(f Fix) Command { return f.Do })
	last := slices.Clone(fixes)
	slices.Reverse(last)
	function(&b, "revert", last, func(f Fix) Command { return f.Undo })
	notDone(&b, "Left out, as it may cut the SSH session:", kept)
	notDone(&b, "To be done by hand, as there is a choice:", s.ByHand)
	b.WriteString(`if [ "$(uname -n)" != "$host" ]; then
	echo "this is not $host: nothing was changed" >&2
	exit 1
fi
case "${1:-}" in
apply) apply ;;
revert) revert ;;
*)
	echo "usage: sh $0 apply | revert" >&2
	exit 2
	;;
esac
[ "$failed" -eq 0 ] || echo "not all commands succeeded" >&2
exit "$failed"
`)
	return b.String()
}

// allowed are the fixes that do not touch a carrier, each once, and the commands of those that do.
func (s Script) allowed() (fixes []Fix, kept []string) {
	seen := map[string]bool{}
	for _, f := range s.Fixes {
		command := f.Do.String()
		switch {
		case seen[command]:
		case f.Interface != "" && slices.Contains(s.Carriers, f.Interface):
			kept = append(kept, command)
		default:
			fixes = append(fixes, f)
		}
		seen[command] = true
	}
	return fixes, kept
}

func function(b *strings.Builder, name string, fixes []Fix, command func(Fix) Command) {
	fmt.Fprintf(b, "%s() {\n", name)
	if len(fixes) == 0 {
		b.WriteString("\techo nothing to change\n")
	}
	for _, f := range fixes {
		c := command(f)
		if c.File != "" {
			fmt.Fprintf(b, "\twrite %s %s\n", Quote(c.Value), Quote(c.File))
		} else {
			fmt.Fprintf(b, "\trun %s\n", c)
		}
	}
	b.WriteString("}\n\n")
}

func notDone(b *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	comment(b, title)
	for _, line := range lines {
		comment(b, "  "+line)
	}
	b.WriteString("\n")
}

// comment writes one line that the shell does not read, whatever is in it.
func comment(b *strings.Builder, text string) {
	fmt.Fprintf(b, "# %s\n", printable(text))
}
