#!/usr/bin/env bash
# debian-pins.sh: pins the packages of Debian whose files the image of selvage-kube has, in deploy/packages/debian.pins: those that the
# stable release has now, with security updates. apt checks the signatures; what is built later is what was checked here.
# The root of apt is a directory of its own, so that this needs no root and no machine with that release.
set -euo pipefail
cd "$(dirname "$0")/.."

suite=trixie
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
mirror="${DEBIAN_MIRROR:-http://deb.debian.org}"
# nft and the libraries that it is linked to; a build refuses one that is not needed, or that is missing.
names=(nftables libnftables1 libedit2 libbsd0 libmd0 libtinfo6 libgmp10 libjansson4 libmnl0 libnftnl11 libxtables12 libc6)

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
out=deploy/packages/debian.pins
now="$(date -u +%Y%m%dT%H%M%SZ)"
for of in "debian $suite" "debian $suite-updates" "debian-security $suite-security"; do
	read -r archive release <<<"$of"
	echo "deb [signed-by=$keyring] $mirror/$archive $release main"
done >"$work/sources.list"

# apt COMMAND ARG...: an apt command about packages of $arch.
apt() {
	local command="$1"
	shift
	"$command" -q -o "APT::Architecture=$arch" -o "APT::Architectures=$arch" -o "Dir::State=$work/$arch" -o "Dir::State::status=$work/status" \
		-o "Dir::Cache=$work/$arch" -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
		-o Acquire::Languages=none -o APT::Sandbox::User="$(id -un)" "$@"
}

: >"$work/status"
{
	echo "# Packages of Debian $suite in the image of selvage-kube: SHA-256, and path on a mirror. scripts/debian-pins.sh writes this file."
	echo "# snapshot $now"
	for arch in amd64 arm64; do
		mkdir -p "$work/$arch/lists/partial" "$work/$arch/archives/partial"
		apt apt-get update >&2
		for name in "${names[@]}"; do
			archive=debian
			shown="$(apt apt-cache show --no-all-versions "$name")"
			version="$(awk '$1 == "Version:" { print $2 }' <<<"$shown")"
			if apt apt-cache madison "$name" | grep -F " $version " | grep -q "debian-security"; then
				archive=debian-security
			fi
			awk -v archive="$archive" '$1 == "Filename:" { path = $2 } $1 == "SHA256:" { sum = $2 } END { print sum "  " archive "/" path }' <<<"$shown"
		done
	done
} >"$work/pins"
mv "$work/pins" "$out"
