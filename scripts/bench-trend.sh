#!/usr/bin/env bash
# bench-trend.sh: measures this tree beside the least that a data path can cost (a bare redirect by
# tc or XDP) and beside a plain bridge, and adds that to a history, whose page shows how the ratios went.
#   ROUNDS   rounds of the A/B experiment (10)
#   TREND    folder of the history (results/trend): a run each, history.csv with all their figures,
#            the machine, its kernel and the version, and index.html
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/sbin:/sbin"

[[ $EUID -eq 0 ]] || {
	echo "bench-trend.sh: network namespaces and BPF need root; run: sudo make bench-trend" >&2
	exit 1
}
trend="${TREND:-results/trend}"
work="$(mktemp -d)"
# shellcheck disable=SC2317  # trap calls it
cleanup() {
	rm -rf "$work"
	[[ -n "${TREND:-}" ]] || scripts/hand-back.sh results # a folder that somebody named stays whose it is
}
trap cleanup EXIT
trap 'exit 130' INT TERM

export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath" # as make build, whose packages serve again
scripts/go.sh build -o "$work/" ./cmd/selvage ./cmd/selvage-lab
mkdir -p "$trend"
"$work/selvage-lab" ab --targets limit,plain,selvage --cases tcp,rr,udp,transit --rounds "${ROUNDS:-10}" --selvage-binary "$work/selvage" --results "$trend"
"$work/selvage-lab" csv "$trend"/*/ >"$work/history.csv"
mv "$work/history.csv" "$trend/history.csv"
"$work/selvage-lab" index "$trend"
echo "$trend/history.csv"
