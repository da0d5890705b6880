# What users and developers run. Everything that needs thought is in scripts/.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

export GO ?= go
go := scripts/go.sh

golangci := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
actionlint := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
version := $(shell scripts/version.sh)
release = CGO_ENABLED=0 $(go) build -trimpath -ldflags '-s -w -X github.com/selvage/selvage/internal/program.Release=$(version)'
bpf := $(shell find bpf lab/*/bpf -name '*.[ch]' -not -path 'bpf/include/bpf/*')

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

.PHONY: build
build: ## build bin/selvage and bin/selvage-lab; needs Go only
	$(release) -o bin/ ./cmd/selvage ./cmd/selvage-lab

.PHONY: build-kube
build-kube: ## build bin/selvage-kube and the plugin bin/kubectl-selvage, for a cluster; needs Go only
	cd kube && CGO_ENABLED=0 ../$(go) build -trimpath -ldflags '-s -w -X github.com/selvage/selvage/internal/program.Release=$(version)' -o ../bin/ ./cmd/selvage-kube ./cmd/kubectl-selvage

.PHONY: build-places
build-places: ## build bin/selvage-lab-linux-ARCH, which the lab copies to machines of another architecture
	GOARCH=amd64 $(release) -o bin/selvage-lab-linux-amd64 ./cmd/selvage-lab
	GOARCH=arm64 $(release) -o bin/selvage-lab-linux-arm64 ./cmd/selvage-lab

.PHONY: dashboards
dashboards: ## write the dashboards for Grafana into bin/dashboards/
	$(go) run ./deploy/grafana/write bin/dashboards

.PHONY: packages
packages: ## build deb, rpm, OCI images and the Helm chart, with SBOM and checksums, into dist/; ARCH=amd64 for its deb and rpm alone
	scripts/dist.sh $(ARCH)

.PHONY: packages-check
packages-check: ## check that packages of this commit are the same, built twice, and what lintian says of them
	scripts/packages.sh packages
	scripts/dist-check.sh

.PHONY: dev-packages
dev-packages: ## install all Debian or Ubuntu packages that development needs (root)
	scripts/packages.sh demo test lint generate packages boot kubelets

.PHONY: demo
demo: ## build two hosts, an edge in each, and measure what the overlay costs (root, under 4 minutes)
	scripts/packages.sh demo
	$(MAKE) build
	scripts/demo.sh

.PHONY: demo-kube
demo-kube: ## egress addresses of a cluster: an API server, four nodes, the Helm chart, and a gateway that is killed (root, under a minute once built)
	scripts/packages.sh test
	$(MAKE) build
	scripts/demo-kube.sh

.PHONY: check
check: ## run the tests that need no root and no time (under a minute); T=./internal/… for some
	scripts/test.sh check $(T)

.PHONY: test
test: ## run all tests that must hold before a merge, end to end too (root, 20 minutes on 2 cores); T=./internal/… for some
	scripts/packages.sh test
	scripts/test.sh test $(T)

.PHONY: test-kube
test-kube: kube-programs ## run the tests that need a real API server (root); T=./test/chart for some
	scripts/packages.sh test
	scripts/test.sh kube $(T)

.PHONY: kube-programs
kube-programs: ## build those of Kubernetes' programs that make test-kube runs and this machine lacks, once (10 minutes for all)
	cd kube && ../$(go) run ./test/programs etcd kube-apiserver kubectl helm

.PHONY: test-long
test-long: ## run what takes hours: repetitions, soaks, scale, fuzzing, the proofs of lab ab and lab why (root)
	scripts/packages.sh test packages boot platforms kubelets
	scripts/test.sh long $(T)

.PHONY: lint
lint: ## check Go, C and shell code, and workflows
	scripts/packages.sh lint
	$(go) run $(golangci) run ./...
	cd deploy/packages/build && ../../../$(go) run $(golangci) run ./...
	cd kube && ../$(go) run $(golangci) run ./...
	clang-format-19 --dry-run --Werror $(bpf)
	shellcheck scripts/*.sh .ci/run lab/experiments/shell/bin/* deploy/packages/scripts/* test/debian/*.sh
	$(go) run $(actionlint)

.PHONY: generate
generate: ## build the BPF objects, their Go types and the CRDs; needs the pinned clang
	scripts/generate.sh

.PHONY: generate-check
generate-check: ## check that generating would change nothing
	scripts/packages.sh generate
	scripts/generate.sh --check

.PHONY: format
format: ## format Go and C code
	scripts/packages.sh lint
	$(go) run $(golangci) fmt ./...
	clang-format-19 -i $(bpf)

.PHONY: bench
bench: ## run the benchmarks (root): ns per packet of each stage; B=regexp for some, TIME=40x for so many rounds
	$(go) test -run '^$$' -bench '$(or $(B),.)' $(if $(TIME),-benchtime $(TIME)) -p 1 $(or $(T),./...) | grep -v 'no test files'

.PHONY: bench-against
bench-against: ## is this tree faster or slower than a revision (root, about 15 minutes); REV=revision
	scripts/packages.sh demo
	scripts/bench-against.sh $(REV)

.PHONY: bench-trend
bench-trend: ## measure this tree beside its limit, and add that to results/trend (root, about 5 minutes)
	scripts/packages.sh demo
	scripts/bench-trend.sh

.PHONY: bench-table
bench-table: ## measure the table of docs/internals/speed.md (root, about 45 minutes)
	scripts/packages.sh run
	scripts/bench-table.sh

.PHONY: clean
clean: ## remove what was built; results/ stays
	rm -rf bin dist
