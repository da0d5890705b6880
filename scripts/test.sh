#!/usr/bin/env bash
# test.sh TIER [PACKAGE...]: one of four runs of the tests.
#   check  what needs neither root nor seconds: pure, golden, with fakes
#   test   all that must hold before a merge, as root: with namespaces, the kernel and real
#          peers too; packages side by side
#   kube   the same for what runs a real API server
#   long   as root: every test with more seeds, cases and time; each end-to-end package 20
#          times; every benchmark once, every fuzz target for a minute, and, alone on the
#          machine, the proofs of lab ab and lab why
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/sbin:/sbin"

usage() {
	sed -n '2,11s/^# \{0,1\}//p' scripts/test.sh >&2
	exit 2
}
case "${1:-}" in
check | test | kube | long) ;;
*) usage ;;
esac
tier="$1"
shift
chosen=("$@")
[[ $# -gt 0 ]] || set -- ./...

if [[ $tier != check && $EUID -ne 0 ]]; then
	echo "test.sh: not root, so most tests will skip; all run with: sudo make ${tier/#long/test-long}" >&2
fi

gofmt="$(scripts/go.sh env GOROOT)/bin/gofmt"
unformatted="$("$gofmt" -l .)"
if [[ -n "$unformatted" ]]; then
	printf 'not formatted, run make format:\n%s\n' "$unformatted" >&2
	exit 1
fi

# As make build, whose packages need not be compiled again then, nor those of another clone.
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath"
# Without the tables of a debugger a test links in half the time.
lean=(-ldflags "-s -w")

work="$(mktemp -d)"
# shellcheck disable=SC2317  # trap calls it
cleanup() {
	# What tests that were interrupted left behind; labs whose process lives stay.
	[[ -z "${SELVAGE_TEST_BINARY:-}" || $EUID -ne 0 ]] || "$work/selvage-lab" restore >/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
scripts/go.sh build -o "$work/summary" ./test/summary

# go_json MODULE ARG...: go test in a module's directory, a JSON object for each event. vet is make lint's.
go_json() { (cd "$1" && "$OLDPWD/scripts/go.sh" test -json -vet=off "${lean[@]}" "${@:2}") 2>&1; }

# longest are the packages that take longest, as test/summary prints them: go test begins with what comes first, and what
# begins last ends alone. Those that are not there are left out.
longest=(internal/datapath lab/experiments internal/simulation test/docs test/e2e/evpn test/e2e/egress test/e2e/ops internal/edge
	test/e2e/firewall test/e2e/bridge test/e2e/underlay test/e2e/transit test/e2e/monitoring lab/experiment/ab/paths lab/cli)

# of_main: packages of the main module, the longest first.
of_main() {
	scripts/go.sh list ./... | awk -v longest="${longest[*]}" '
		BEGIN { n = split(longest, first, " ") }
		{ path = $0; sub("^github.com/selvage/selvage/", "", path); all[NR] = $0; at[path] = $0 }
		END {
			for (i = 1; i <= n; i++) if (first[i] in at) { print at[first[i]]; done[at[first[i]]] = 1 }
			for (i = 1; i <= NR; i++) if (!(all[i] in done)) print all[i]
		}'
}

# of_kube: packages of Kubernetes' module without those that run a real API server; of_cluster: these.
of_kube() { (cd kube && "$OLDPWD/scripts/go.sh" list ./... | grep -v '/kube/test/'); }
of_cluster() { (cd kube && "$OLDPWD/scripts/go.sh" list ./test/...); }

# go_test ARG...: go test of chosen packages, or of all of both modules side by side; summed up.
go_test() {
	local packages kube
	{
		if [[ ${#chosen[@]} -gt 0 ]]; then
			go_json . "$@" "${chosen[@]}"
		else
			failed=0
			mapfile -t packages < <(of_main)
			mapfile -t kube < <(of_kube)
			go_json kube "$@" "${kube[@]}" >"$work/kube" &
			go_json . "$@" "${packages[@]}" || failed=1
			wait "$!" || failed=1
			cat "$work/kube"
			exit "$failed"
		fi
	} | "$work/summary"
}

# binary: the program that the end-to-end tests run, built once for all packages, and the lab
# that removes what they leave.
binary() {
	SELVAGE_TEST_BINARY="$work/selvage"
	export SELVAGE_TEST_BINARY
	scripts/go.sh build "${lean[@]}" -o "$work/" ./cmd/selvage ./cmd/selvage-lab
}

# end_to_end: those of the chosen packages that are; others: the rest.
end_to_end() { scripts/go.sh list "$@" | grep '/test/e2e/' || true; }
others() { scripts/go.sh list "$@" | grep -v '/test/e2e/' || true; }

# side_by_side: packages at a time. Much of their time is waiting, so more than cores.
side_by_side="$(($(nproc) + 1))"

fuzz() {
	local package name failed=0
	for package in $(others "$@"); do
		for name in $(scripts/go.sh test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
			echo "== fuzz $package $name"
			scripts/go.sh test -vet=off -run '^$' -fuzz "^$name\$" -fuzztime 1m "$package" || failed=1
		done
	done
	return "$failed"
}

long() {
	local failed=0 packages
	binary
	export SELVAGE_TEST_LONG=1
	mapfile -t packages < <(others "$@")
	[[ ${#packages[@]} -eq 0 ]] || go_json . -count=1 -p "$side_by_side" -timeout 3h "${packages[@]}" | "$work/summary" || failed=1
	[[ ${#chosen[@]} -gt 0 ]] || go_json kube -count=1 -timeout 3h ./... | "$work/summary" || failed=1
	mapfile -t packages < <(end_to_end "$@")
	[[ ${#packages[@]} -eq 0 ]] || go_json . -count=20 -p "$side_by_side" -timeout 6h "${packages[@]}" | "$work/summary" || failed=1
	go_test -count=1 -p 1 -timeout 1h -run '^$' -bench . -benchtime 1x || failed=1
	fuzz "$@" || failed=1
	if [[ ${#chosen[@]} -eq 0 ]]; then
		# By themselves, for their tables are the result.
		scripts/go.sh test -v -vet=off "${lean[@]}" -count=1 -timeout 3h -run '^TestProof$' ./lab/experiment/ab -proof || failed=1
		scripts/go.sh test -v -vet=off "${lean[@]}" -count=1 -timeout 3h -run '^TestProof$' ./lab/experiment/why -proof || failed=1
	fi
	return "$failed"
}

case "$tier" in
check) go_test -short ;;
test)
	binary
	go_test -count=1 -p "$side_by_side" -timeout 20m
	;;
kube)
	binary
	[[ ${#chosen[@]} -gt 0 ]] || mapfile -t chosen < <(of_cluster)
	go_json kube -count=1 -p "$side_by_side" -timeout 20m "${chosen[@]}" | "$work/summary"
	;;
long) long "$@" ;;
esac
