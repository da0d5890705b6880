#!/usr/bin/env bash
# size.sh: lines and bytes of the repository by part, and words of its documents. It counts files that git tracks.
set -euo pipefail
cd "$(dirname "$0")/.."

# A submodule, or a file that is deleted and not yet committed, has no size.
git ls-files -z | xargs -0 wc -lcw -- 2>/dev/null | awk '
	function part(f) {
		if (f ~ /_bpfel\.(go|o)$|zz_generated|^kube\/chart\/selvage\/crds\/|\.sum$/) return "generated"
		if (f ~ /^bpf\/include\/bpf\//) return "vendored"
		if (f ~ /_test\.go$|^(kube\/)?test\/.*\.go$/) return "Go, tests"
		if (f ~ /\.go$/) return "Go"
		if (f ~ /\.[ch]$/) return "C"
		if (f ~ /\.md$/) return "documents"
		if (f ~ /\/testdata\/|^test\/|^kube\/test\/|\.json$/) return "data"
		return "other"
	}
	$4 != "" && $4 != "total" {
		p = part($4); files[p]++; lines[p] += $1; bytes[p] += $3
		if (p == "documents") words += $2
		n++; l += $1; b += $3
	}
	END {
		row = "%-10s %6s %8s %9s\n"
		printf row, "part", "files", "lines", "kB"
		for (p in lines) printf row, p, files[p], lines[p], int(bytes[p] / 1000) | "sort"
		close("sort")
		printf row, "all", n, l, int(b / 1000)
		printf "documents have %d words\n", words
	}'
