#!/usr/bin/env bash
# demo.sh: the main job on this machine. Two hosts in network namespaces, an
# edge in each, and what the overlay costs. `make demo` runs it, after the
# packages and the build. Arguments are passed to `selvage lab ab`.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/sbin:/sbin"

if [[ $EUID -ne 0 ]]; then
	echo "demo.sh: network namespaces and BPF need root; run: sudo make demo" >&2
	exit 1
fi

trap 'scripts/hand-back.sh bin results' EXIT

bin/selvage lab ab --targets wire,plain,kernel,selvage "$@"

newest="$(find results -mindepth 2 -maxdepth 2 -name report.html -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2-)"
echo
echo "report: ${newest:?demo.sh: no report was written}"
echo "data:   ${newest%/*}/result.json"
