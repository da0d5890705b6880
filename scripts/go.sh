#!/usr/bin/env bash
# go.sh ARG...: runs Go with these arguments, found and new enough, also where
# sudo has cleared PATH, or left the HOME of another user.
set -euo pipefail

die() {
	echo "go.sh: $*" >&2
	exit 1
}

root="$(cd "$(dirname "$0")/.." && pwd)"
go="${GO:-go}"
PATH="$PATH:/usr/local/go/bin:/usr/lib/go/bin:/snap/bin:/usr/sbin:/sbin"
export PATH

# Root must not write into the cache of the user who typed sudo.
if [[ -z "${HOME:-}" || ($EUID -eq 0 && "$(stat -c %u "$HOME" 2>/dev/null)" != 0) ]]; then
	HOME="$(getent passwd "$EUID" | cut -d: -f6)"
	export HOME
fi

need="$(awk '$1 == "go" { print $2 }' "$root/go.mod")"
how="install Go $need or newer from https://go.dev/dl/ into /usr/local/go, or name yours: make GO=/path/to/go …"
command -v "$go" >/dev/null || die "Go is missing; $how"
have="$(cd "$root" && "$go" env GOVERSION)" || die "$go cannot build this module; $how"
have="${have#go}"
have="${have%% *}"
[[ "$(printf '%s\n' "$need" "$have" | sort -V | head -n 1)" == "$need" ]] || die "$go is version $have; $how"

# Without a repository that git will read (a tarball, another owner) Go cannot
# record the commit.
git -C "$root" rev-parse HEAD >/dev/null 2>&1 || export GOFLAGS="${GOFLAGS:-} -buildvcs=false"

exec "$go" "$@"
