#!/usr/bin/env bash
# test.sh [PACKAGE...]: formatting, vet and all tests, as root the end-to-end
# ones too, and every benchmark once. One package at a time, because those that
# build networks share the machine's cores and BPF file system.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/sbin:/sbin"
[[ $# -gt 0 ]] || set -- ./...

if [[ $EUID -ne 0 ]]; then
	echo "test.sh: not root, so most tests will skip; all run with: sudo make test" >&2
fi

gofmt="$(scripts/go.sh env GOROOT)/bin/gofmt"
unformatted="$("$gofmt" -l .)"
if [[ -n "$unformatted" ]]; then
	printf 'not formatted, run make format:\n%s\n' "$unformatted" >&2
	exit 1
fi

scripts/go.sh vet "$@"

summary="$(mktemp)"
trap 'rm -f "$summary"' EXIT
scripts/go.sh build -o "$summary" ./test/summary
scripts/go.sh test -json -count=1 -p 1 -vet=off -timeout 30m -bench . -benchtime 1x "$@" 2>&1 | "$summary"
