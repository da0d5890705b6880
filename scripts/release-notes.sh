#!/usr/bin/env bash
# release-notes.sh VERSION [FILE]: the section of a version in CHANGELOG.md, or in FILE, as GitHub shows it:
# each paragraph and each item on one line, as line breaks count there, and links to files of the repository
# as links to those of the tag. The section is "## 0.2.0" or "## 0.2.0 (2026-12-01)".
set -euo pipefail
cd "$(dirname "$0")/.."

[[ $# -ge 1 ]] || {
	echo "usage: release-notes.sh VERSION [FILE]" >&2
	exit 2
}
version="$1" file="${2:-CHANGELOG.md}"

notes="$(awk -v version="$version" '
	function flush() { if (text != "") print text; text = "" }
	/^## / { flush(); inside = ($2 == version); next }
	!inside { next }
	/^```/ { flush(); code = !code; print; next }
	code { print; next }
	/^ *$/ { flush(); print ""; next }
	/^#/ || /^\|/ { flush(); print; next }
	/^ *[-*] / { flush(); text = $0; next }
	{ line = $0; if (text != "") sub(/^ +/, "", line); text = (text == "" ? line : text " " line) }
	END { flush() }
' "$file" | cat -s | sed -E "s#\]\(([^):]+)\)#](https://github.com/selvage/selvage/blob/v$version/\1)#g")"

notes="${notes#$'\n'}"
[[ -n "$notes" ]] || {
	echo "release-notes.sh: $file has no section \"## $version\", or it is empty" >&2
	exit 1
}
printf '%s\n' "$notes"
