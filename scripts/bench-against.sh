#!/usr/bin/env bash
# bench-against.sh REV: is this tree faster or slower than that revision? Builds both, has
# their edges take turns in the A/B experiment (TCP, CPU per GB, request/response, UDP,
# transit) and their stage benchmarks too, and says better, worse or no difference for
# each figure: "old" is REV, "new" this tree.
#   ROUNDS  rounds of the A/B experiment (10) and runs of the stage benchmarks (10)
#   STAGES  which benchmarks of internal/datapath
#   RESULTS folder of the report (results)
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/sbin:/sbin"

die() {
	echo "bench-against.sh: $*" >&2
	exit 1
}

[[ $# -eq 1 && -n "$1" ]] || die "usage: make bench-against REV=revision"
[[ $EUID -eq 0 ]] || die "network namespaces and BPF need root; run: sudo make bench-against REV=$1"
rev="$(git rev-parse --verify "$1^{commit}")" || die "there is no revision $1"
stages="${STAGES:-^Benchmark(Port|Underlay|Routed|Stages|Translate|Connections)\$}"

work="$(mktemp -d)"
# shellcheck disable=SC2317  # trap calls it
cleanup() {
	git worktree remove --force "$work/tree" 2>/dev/null || true
	rm -rf "$work"
	[[ -n "${RESULTS:-}" ]] || scripts/hand-back.sh results # a folder that somebody named stays whose it is
}
trap cleanup EXIT
trap 'exit 130' INT TERM
git worktree add --quiet --detach "$work/tree" "$rev"

echo "old is $(git log -1 --format='%h %s' "$rev"), new is $(git describe --always --dirty) of this tree" >&2
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath" # as make build, whose packages serve again
declare -A tree=([old]="$work/tree" [new]=.)
for side in old new; do
	scripts/go.sh -C "${tree[$side]}" build -o "$work/$side" ./cmd/selvage
	scripts/go.sh -C "${tree[$side]}" test -c -o "$work/$side.test" ./internal/datapath
done
scripts/go.sh build -o "$work/selvage-lab" ./cmd/selvage-lab

status=0
"$work/selvage-lab" ab --targets "old=$work/old,new=$work/new" --cases tcp,rr,udp,transit \
	--rounds "${ROUNDS:-10}" --results "${RESULTS:-results}" || status=$?

# The two take turns benchmark by benchmark, and who begins is the other one next time. (Turns
# within one, by stopping processes, are no way: a signal has the verifier begin again.)
runs="${ROUNDS:-10}"
mapfile -t benchmarks < <(cd internal/datapath && "$work/new.test" -test.list "$stages" | grep '^Benchmark')
[[ ${#benchmarks[@]} -gt 0 ]] || die "no stage benchmark matches $stages"
for ((i = 1; i <= runs; i++)); do
	echo "stage benchmarks: run $i of $runs" >&2
	order=(old new)
	((i % 2)) || order=(new old)
	for name in "${benchmarks[@]}"; do
		for side in "${order[@]}"; do
			(cd "${tree[$side]}/internal/datapath" && "$work/$side.test" -test.run '^$' -test.bench "^$name\$" -test.benchtime 30x) >>"$work/$side.txt" 2>"$work/failed" || {
				cat "$work/failed" >&2
				die "the stage benchmarks of $side failed"
			}
		done
	done
done
scripts/go.sh run ./test/benchdiff "$work/old.txt" "$work/new.txt" || status=$?
exit "$status"
