package place

import (
	"fmt"
	"strings"

	"github.com/selvage/selvage/lab/agent"
)

// script is what the shell of a place runs: it makes a private directory in which programs may
// run, takes the program from standard input (or links the one that is its first argument),
// runs the agent and removes the directory, however the agent ends. It stands in single quotes
// in the user's login shell, which need not be a POSIX one: so it has no single quote,
// exclamation mark, backslash or end of line.
func script(o Options, remote bool) string {
	lines := []string{
		`umask 077`,
		`dir=`,
		`finish() { [ -z "$dir" ] || rm -rf "$dir"; }`,
		`trap finish EXIT`,
		`trap "exit 1" HUP INT TERM PIPE`,
		// No mark stands in the script as it is printed: a shell may put its command line into the terminal's title.
		`echo "` + apart(saysPlace) + `$(uname -m) $(id -un)@$(uname -n)"`,
		`size=0`,
	}
	if remote {
		lines = append(lines, `read -r size || exit 1`)
	}
	lines = append(lines,
		`for base in "${TMPDIR:-/tmp}" /var/tmp "$HOME"; do `+
			`dir=$(mktemp -d "$base/`+agent.DirPrefix+`XXXXXXXXXX" 2>/dev/null) || continue; `+
			`echo $$ >"$dir/guard"; `+
			`echo exit 0 >"$dir/try"; chmod 700 "$dir/try"; "$dir/try" 2>/dev/null && `+ // not where it is mounted noexec
			`head -c "$size" /dev/zero 2>/dev/null >"$dir/try" && break; `+ // nor where there is no room
			`rm -rf "$dir"; dir=; done`,
		`[ -n "$dir" ] || { echo no directory with room for $size bytes in which programs may run: set TMPDIR to one >&2; exit 1; }`,
		`rm -f "$dir/try"`)
	if remote {
		lines = append(lines, copyLines(o)...)
	} else {
		lines = append(lines, `ln -s "$1" "$dir/selvage-lab" || exit 1`)
	}
	sudo := ""
	switch {
	case !remote || o.Sudo == NoSudo || o.Sudo == "":
	case o.Sudo == SudoPassword: // which is read by sudo, or else by nobody
		sudo = "$sudo "
		lines = append(lines, `sudo="sudo -k -S -p :"`,
			`if [ "$(id -u)" -eq 0 ]; then sudo=; read -r unused; elif sudo -n true 2>/dev/null; then sudo="sudo -n"; read -r unused; fi`)
	default:
		sudo = "$sudo "
		lines = append(lines, `sudo="sudo -n"`, `[ "$(id -u)" -ne 0 ] || sudo=`)
	}
	run := fmt.Sprintf(`%s"$dir/selvage-lab" agent --dir="$dir"`, sudo)
	lines = append(lines,
		fmt.Sprintf(`%s --ssh="$SSH_CONNECTION" --max-rate=%d --max-time=%s`, run, o.Limits.Rate, o.Limits.Time),
		`status=$?`,
		// An agent that was killed has not undone its changes. Where that fails, its ledger stays.
		`if [ -e "$dir/ledger.json" ]; then `+run+` --undo </dev/null || { dir=; exit 1; }; fi`,
		`exit $status`)
	return strings.Join(lines, "; ")
}

// apart is a mark as the shell puts it together.
func apart(mark string) string { return mark[:1] + `""` + mark[1:] }

// copyLines read as many bytes as the program has.
func copyLines(o Options) []string {
	return []string{
		`limit=`,
		`command -v timeout >/dev/null && limit="timeout ` + fmt.Sprint(int(o.Copy.Seconds())) + `"`,
		`$limit head -c "$size" >"$dir/selvage-lab" || exit 1`,
		`[ "$(wc -c <"$dir/selvage-lab")" -eq "$size" ] || exit 1`,
		`chmod 700 "$dir/selvage-lab"`,
		`echo "` + apart(saysCopied) + `$size"`,
	}
}
