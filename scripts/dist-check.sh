#!/usr/bin/env bash
# dist-check.sh: builds the packages of the present commit twice, from two clones in places of different
# names, and compares every byte; then asks lintian what is wrong with the debs. With KEEP=DIR they stay there.
set -euo pipefail
cd "$(dirname "$0")/.."

revision="$(git rev-parse HEAD)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
for n in first another; do
	git clone -q --no-hardlinks . "$work/$n"
	git -C "$work/$n" checkout -q --detach "$revision"
	OUT="$work/$n-dist" "$work/$n/scripts/dist.sh"
done
diff -r "$work/first-dist" "$work/another-dist"
(cd "$work/first-dist" && sha256sum --quiet --check SHA256SUMS)
echo "dist-check.sh: $(find "$work/first-dist" -type f | wc -l) files are the same, built twice"
lintian --allow-root --fail-on error,warning "$work"/first-dist/*.deb
[[ -z "${KEEP:-}" ]] || cp "$work"/first-dist/* "$KEEP/"
