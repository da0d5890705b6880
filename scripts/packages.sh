#!/usr/bin/env bash
# packages.sh SET...: installs the Debian or Ubuntu packages of the sets whose
# commands are missing. Where nothing is missing it does nothing and needs no
# root. The sets:
#   demo      what most of the lab's experiments run
#   app       the database of the application loop, in lab latency
#   test      what the tests run: the lab's and the real peers
#   platforms what make test-long runs of platforms besides: libvirt, QEMU, Ansible
#   lint      checks of C and shell
#   generate  the compiler of the BPF programs
#   boot      what starts virtual machines, in the long tests
#   kubelets  what runs pods of the long tests' kubelets
#   packages  what the long tests and make packages-check ask about packages
set -euo pipefail
PATH="$PATH:/usr/sbin:/sbin"

# set_of SET: its lines command:package; a command may be a path with wildcards.
set_of() {
	case "$1" in
	demo) printf '%s\n' iperf3:iperf3 ethtool:ethtool ip:iproute2 ss:iproute2 ps:procps ;;
	app) printf '%s\n' '/usr/lib/postgresql/*/bin/initdb:postgresql' setpriv:util-linux unshare:util-linux ;;
	test)
		set_of demo
		printf '%s\n' sockperf:sockperf qperf:qperf # to compare with, in the long tests
		set_of app
		printf '%s\n' ovs-vswitchd:openvswitch-switch tshark:tshark tcpdump:tcpdump vtysh:frr prometheus:prometheus ping:iputils-ping nft:nftables /usr/lib/cni/bridge:containernetworking-plugins sshd:openssh-server sudo:sudo openssl:openssl mandoc:mandoc groff:groff-base
		;;
	platforms)
		printf '%s\n' '/usr/lib/*/libvirt/connection-driver/libvirt_driver_qemu.so:libvirt-daemon-driver-qemu' libvirtd:libvirt-daemon virsh:libvirt-clients
		printf '%s\n' ansible-playbook:ansible-core
		set_of boot
		;;
	lint) printf '%s\n' clang-format-19:clang-format-19 shellcheck:shellcheck ;;
	generate) printf '%s\n' clang-19:clang-19 llvm-strip-19:llvm-19 ;;
	boot) printf '%s\n' mmdebstrap:mmdebstrap qemu-system-x86_64:qemu-system-x86 mke2fs:e2fsprogs ;;
	kubelets) printf '%s\n' containerd:containerd runc:runc nft:nftables unshare:util-linux /usr/lib/cni/bridge:containernetworking-plugins ;;
	packages) printf '%s\n' lintian:lintian rpm:rpm mmdebstrap:mmdebstrap skopeo:skopeo podman:podman runc:runc containerd:containerd zsh:zsh fish:fish ;;
	*) die "unknown set $1; the sets are demo, app, test, platforms, lint, generate, boot, kubelets and packages" ;;
	esac
}

die() {
	echo "packages.sh: $*" >&2
	exit 1
}

# there COMMAND: whether it is, by its name or as a path with a version that does
# not matter.
there() {
	command -v "$1" >/dev/null || [[ $1 == */* && -n "$(compgen -G "$1")" ]]
}

# missing SET...: the packages whose command is not there, one per line.
missing() {
	local set_name pair
	for set_name in "$@"; do
		set_of "$set_name"
	done | while read -r pair; do
		there "${pair%%:*}" || echo "${pair#*:}"
	done | sort -u
}

# keep_services_off: packages must not start what the tests start themselves.
# On a machine without a running init the start would fail the installation.
keep_services_off() {
	local policy=/usr/sbin/policy-rc.d
	[[ ! -e "$policy" ]] || return 0
	trap 'rm -f /usr/sbin/policy-rc.d' EXIT
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
}

apt_get() {
	DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

[[ $# -gt 0 ]] || die "usage: packages.sh SET..."
packages="$(missing "$@")"
[[ -n "$packages" ]] || exit 0
mapfile -t packages <<<"$packages"
command -v apt-get >/dev/null || die "missing: ${packages[*]} (names of Debian packages); install them your system's way"
[[ $EUID -eq 0 ]] || die "missing: ${packages[*]}; run: sudo $0 $*"

echo "packages.sh: installing ${packages[*]}" >&2
keep_services_off
apt_get update >&2 || echo "packages.sh: apt-get update had errors, going on with what is known" >&2
apt_get install -y --no-install-recommends -o Dpkg::Options::=--force-confold "${packages[@]}" >&2
left="$(missing "$@")"
[[ -z "$left" ]] || die "installed, but the commands of ${left//$'\n'/, } are still missing"
