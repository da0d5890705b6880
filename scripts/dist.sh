#!/usr/bin/env bash
# dist.sh [ARCH|images-ARCH]: makes what a release consists of, in dist/: deb and rpm of selvage and selvage-lab, OCI images
# of those and of selvage-kube, the Helm chart, an SBOM of each program, and SHA256SUMS. With ARCH (amd64 or
# arm64) only its debs and rpms, with images-ARCH only the images that a cluster runs.
# One commit gives the same bytes again, by the same version of Go. From the environment:
#   OUT                instead of dist/
#   VERSION            instead of what version.sh says
#   SOURCE_DATE_EPOCH  instead of the time of the commit
#   PROGRAMS           directory with selvage and selvage-lab of ARCH, instead of building them
#   DEBIAN_MIRROR      instead of http://deb.debian.org, for the image of selvage-kube (deploy/packages/debian.pins)
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/local/go/bin"
go="$PWD/scripts/go.sh"
umask 022

cyclonedx=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

only="${1:-}"
out="${OUT:-dist}"
version="${VERSION:-$(scripts/version.sh)}"
commit="$(git rev-parse HEAD 2>/dev/null || echo unknown)"
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}"
export SOURCE_DATE_EPOCH
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# build ARCH PACKAGE...: programs of an architecture, without what depends on the clone or on the environment.
build() {
	local arch="$1"
	shift
	CGO_ENABLED=0 GOOS=linux GOARCH="$arch" GOAMD64=v1 GOARM64=v8.0 GOFLAGS='' GOEXPERIMENT='' GOFIPS140=off "$go" build -buildvcs=false -trimpath \
		-ldflags "-s -w -buildid= -X github.com/selvage/selvage/internal/program.Release=$version -X github.com/selvage/selvage/internal/program.Commit=${commit:0:12}" \
		-o "$work/$arch/" "$@"
}

# kube ARCH: selvage-kube, in a workspace, so that it says of Selvage's module what it says of others', and no
# path in place of it.
kube() {
	printf 'go %s\n\nuse (\n\t%s\n\t%s\n)\n' "$(awk '$1 == "go" { print $2 }' go.mod)" "$PWD" "$PWD/kube" >"$work/go.work"
	(cd kube && GOWORK="$work/go.work" build "$1" ./cmd/selvage-kube)
}

# shared: what the programs say that belongs to /usr/share; those of this machine say it.
shared() {
	local own
	own="$("$go" env GOHOSTARCH)"
	[[ -x "$work/$own/selvage" ]] || build "$own" ./cmd/selvage ./cmd/selvage-lab
	for program in selvage selvage-lab; do
		"$work/$own/$program" __share "$work/share/$program"
	done
}

# bills: what each program is linked from, as its own build information says, with the licences in the module
# cache. Selvage itself is never asked for, so that it does not matter whether a proxy already knows this version.
bills() {
	local arch program
	GOFLAGS='' GOBIN="$work" "$go" install "$cyclonedx"
	for arch in amd64 arm64; do
		for program in selvage selvage-lab selvage-kube; do
			GONOPROXY=github.com/selvage/selvage GOVCS='*:off' GOOS=linux GOARCH="$arch" "$work/cyclonedx-gomod" bin -json -std -licenses -noserial -notimestamp -version "v$version" \
				-output "$out/${program}_${version}_$arch.cdx.json" "$work/$arch/$program" 2>"$work/bills" || {
				cat "$work/bills" >&2
				return 1
			}
		done
	done
}

if [[ -n "${PROGRAMS:-}" ]]; then
	mkdir -p "$work/$only"
	cp "$PROGRAMS/selvage" "$PROGRAMS/selvage-lab" "$work/$only/"
fi
cluster=''
[[ "$only" != images-* ]] || cluster="${only#images-}"
for arch in ${cluster:-${only:-amd64 arm64}}; do
	[[ -n "${PROGRAMS:-}" ]] || build "$arch" ./cmd/selvage ./cmd/selvage-lab
	[[ -n "$only" && -z "$cluster" ]] || kube "$arch"
done
[[ -n "$cluster" ]] || shared

mkdir -p "$out"
out="$(cd "$out" && pwd)"
if [[ -z "$only" ]]; then # a release, of which nothing of another remains
	find "$out" -maxdepth 1 -name 'selvage*' -type f -delete
	bills
fi
GOROOT="$("$go" env GOROOT)" GOMODCACHE="$("$go" env GOMODCACHE)"
export GOROOT GOMODCACHE
(cd deploy/packages/build && "$go" build -o "$work/build" .)
"$work/build" -root "$PWD" -work "$work" -out "$out" -version "$version" -commit "$commit" -epoch "$SOURCE_DATE_EPOCH" ${only:+-only "$only"}
if [[ -z "$only" ]]; then
	(cd "$out" && sha256sum selvage* >SHA256SUMS)
fi
