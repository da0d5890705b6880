#!/usr/bin/env bash
# demo-kube.sh: egress addresses of a cluster on this machine. A real API
# server, four nodes in network namespaces, the Helm chart, a gateway that is
# killed under traffic, and a page about it. `make demo-kube` runs it, after
# the packages and the build.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/sbin:/sbin"

if [[ $EUID -ne 0 ]]; then
	echo "demo-kube.sh: network namespaces and BPF need root; run: sudo make demo-kube" >&2
	exit 1
fi

trap 'scripts/hand-back.sh bin results' EXIT

echo "The first run builds what this machine lacks of etcd, kube-apiserver, kubectl and Helm into ${XDG_CACHE_HOME:-$HOME/.cache}/selvage: ten minutes for all four."
export SELVAGE_KUBE_DEMO="$PWD/results/demo-kube" SELVAGE_TEST_BINARY="$PWD/bin/selvage"
(cd kube && ../scripts/go.sh test -count=1 -timeout 40m -v -run '^TestDemo$' ./test/nodes) | grep -v '^=== \|^--- \|^PASS$\|^ok '
