#!/usr/bin/env bash
# bench-table.sh: measures the table of docs/internals/speed.md in one sitting: bulk transfer, round
# trips, small packets and transit beside what they can cost at least, by IP version, streams, flows,
# rules and offloads.
#   ROUNDS   rounds of each part (10)
#   RESULTS  folder that gets a run for each part (results/table)
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/sbin:/sbin"

[[ $EUID -eq 0 ]] || {
	echo "bench-table.sh: network namespaces and BPF need root; run: sudo make bench-table" >&2
	exit 1
}
rounds="${ROUNDS:-10}"
results="${RESULTS:-results/table}"
work="$(mktemp -d)"
# shellcheck disable=SC2317  # trap calls it
cleanup() {
	rm -rf "$work"
	[[ -n "${RESULTS:-}" ]] || scripts/hand-back.sh results # a folder that somebody named stays whose it is
}
trap cleanup EXIT
trap 'exit 130' INT TERM

export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath" # as make build, whose packages serve again
scripts/go.sh build -o "$work/" ./cmd/selvage ./cmd/selvage-lab
mkdir -p "$results"

lab() {
	echo "== lab $*"
	"$work/selvage-lab" "$@" --selvage-binary "$work/selvage" --results "$results"
}

lab ab --targets limit,limit-vxlan,plain,kernel,selvage,selvage-geneve,selvage-nvgre --cases tcp,rr,udp,transit --rounds "$rounds"
lab ab --targets limit,plain,kernel,selvage --cases tcp,rr,udp --family 6 --rounds "$rounds"
lab ab --targets limit,plain,kernel,selvage --cases tcp,rr,udp --inner-family 6 --rounds "$rounds"
for streams in 4 16 64; do
	lab ab --targets limit,plain,kernel,selvage --cases tcp --streams "$streams" --rounds "$rounds"
done
for flows in 10000 100000 1000000; do
	lab ab --targets limit,selvage --cases transit --flows "$flows" --cycles 3 --slice 100ms --rounds "$rounds"
done
lab cache --flows 1280,100000 --routes 0,1000 --duration 300ms --rounds "$rounds"
lab latency --measure conn --rules 0,100,100000 --targets selvage --scenarios two-hosts --sample 1s --rounds "$rounds"
lab egress --measure conn --stages egress --targets kernel,selvage --sample 1s --wire 0 --rounds "$rounds"
lab offload --states tso-off --sizes 64 --ways one-way --rounds "$rounds"
lab ab --targets kernel,selvage --cases tcp --rounds "$rounds" --offload underlay:tx-udp_tnl-segmentation=off,underlay:tx-udp_tnl-csum-segmentation=off
lab rfc2544 --quick --targets kernel,selvage-tc --sizes 64 --rounds "$rounds"
scripts/go.sh test ./internal/datapath -run '^$' -bench '(Port|Underlay)/IPv./hit' -benchtime 200x
