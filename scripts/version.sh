#!/usr/bin/env bash
# version.sh: the version of this tree, for its programs and its packages.
#   a commit with the tag v0.2.0   0.2.0
#   any other                      0.2.0~dev.COUNT+gHASH
# COUNT are the commits since the last tag, or all. The 0.2.0 of the latter is internal/program/VERSION, the
# next release; dpkg, rpm and apt sort such versions by COUNT, and before the release. When the next release
# is not named yet, they are the last one's and sort behind it: 0.2.0+dev.COUNT.gHASH.
# A tree that differs from its commit adds .dirty (+dirty to a release), one without a repository is 0.2.0~dev.
set -euo pipefail
cd "$(dirname "$0")/.."

next="$(<internal/program/VERSION)"
if ! hash="$(git rev-parse HEAD 2>/dev/null)"; then
	echo "$next~dev"
	exit
fi
hash="g${hash:0:12}"
dirty=""
git diff --quiet HEAD -- 2>/dev/null || dirty=dirty

tag="$(git describe --tags --abbrev=0 --match 'v[0-9]*.[0-9]*.[0-9]*' 2>/dev/null || true)"
last="${tag#v}"
count="$(git rev-list --count "${tag:+$tag..}HEAD")"
if [[ -n "$tag" && $count == 0 ]]; then
	echo "$last${dirty:++$dirty}"
elif [[ -n "$tag" && "$(printf '%s\n' "$next" "$last" | sort -V | tail -n 1)" == "$last" ]]; then
	echo "$last+dev.$count.$hash${dirty:+.$dirty}"
else
	echo "$next~dev.$count+$hash${dirty:+.$dirty}"
fi
