#!/usr/bin/env bash
# generate.sh [--check]: builds the BPF objects and their Go types from bpf/
# with the pinned clang, and what is generated of Kubernetes' kinds. With --check it does so in a copy and fails where that
# differs from what is committed.
set -euo pipefail
cd "$(dirname "$0")/.."

clang=19.1.7

have="$(clang-19 --version 2>/dev/null | sed -n '1s/.*version \([0-9.]*\).*/\1/p')"
if [[ "$have" != "$clang" ]] || ! command -v llvm-strip-19 >/dev/null; then
	cat >&2 <<-END
		generate.sh: clang-19 is ${have:-missing}; the objects are made by $clang, so that they are the same everywhere
		  Debian 12 or 13:  sudo scripts/packages.sh generate
		  elsewhere:        https://github.com/llvm/llvm-project/releases/tag/llvmorg-$clang, its bin/clang and
		                    bin/llvm-strip as clang-19 and llvm-strip-19 in PATH
		To build, run and test Selvage no clang is needed.
	END
	exit 1
fi

# Deep copies and CRDs of Kubernetes' module.
kinds() {
	(
		cd kube
		run=(../scripts/go.sh run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0)
		"${run[@]}" object paths=./apis/...
		"${run[@]}" crd paths=./apis/... output:crd:dir=chart/selvage/crds
	)
}

case "${1:-}" in
"")
	scripts/go.sh generate ./...
	kinds
	exit
	;;
--check) ;;
*)
	echo "usage: generate.sh [--check]" >&2
	exit 2
	;;
esac

fresh="$(mktemp -d)"
trap 'rm -rf "$fresh"' EXIT
tar -c --exclude=./.git --exclude=./bin --exclude=./results --exclude='*_bpfel.*' . | tar -x -C "$fresh"
"$fresh/scripts/generate.sh"

generated() { (cd "$1" && find . -name '*_bpfel.*' -o -name 'zz_generated.*' -o -path './kube/chart/selvage/crds/*.yaml' | sort); }
if [[ -z "$(generated "$fresh")" ]]; then
	echo "generate.sh: nothing was generated" >&2
	exit 1
fi
stale="$({ generated . && generated "$fresh"; } | sort -u | while read -r file; do
	cmp -s "$file" "$fresh/$file" || echo "$file"
done)"
if [[ -n "$stale" ]]; then
	printf 'generate.sh: %s is not what its sources give; run make generate and commit\n' "$stale" >&2
	exit 1
fi
echo "generate.sh: $(generated . | wc -l) generated files are up to date"
