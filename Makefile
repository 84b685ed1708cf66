# Everything here needs Go and git, and nothing else, but for `make e2e`,
# `make show-cassandra`, `make show-deploy`, `make show-restore`, `make show-backup`
# and `make show-kvs`: they run whole pods, as root on Debian, and install Debian's
# packages that are missing. The first `make demo` or `make test` on a machine builds
# a Kubernetes control plane from its Go modules, which takes 10 to 20 minutes on two
# cores and is kept in the user's cache folder.

SHELL := /bin/sh
GO ?= go
# Of the version of Go that go.mod asks for, which need not be the first in PATH.
GOFMT = $(shell $(GO) env GOROOT)/bin/gofmt
RIG := $(GO) run ./test/cluster/cmd/rig

# The race detector needs a C compiler. `make test RACE=` does without.
RACE ?= $(shell test "$$($(GO) env CGO_ENABLED)" = 1 && echo -race)

# The versions of the tools of `make lint` and `make vuln`.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0

# Writes code and CustomResourceDefinitions of the types in api. Of the modules that
# are cached first, so that nothing is asked for where it has run before.
CONTROLLER_GEN = GOPROXY="file://$$($(GO) env GOMODCACHE)/cache/download,$$($(GO) env GOPROXY)" \
	$(GO) run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd paths=./api/v1alpha1

# Writes the Go code of api/medusa/medusa.proto. Its generators are pinned in its own
# go.mod.
PROTO_GEN = cd api/medusa/generate && $(GO) run . "$(CURDIR)"

# Without it gRPC brings golang.org/x/net/trace and with that html/template, for which
# the linker keeps every method of every type: 15 MB of a program.
TAGS := grpcnotrace

BENCHTIME ?= 1s
BENCHCOUNT ?= 5
FUZZTIME ?= 30s

# What is kept of failed end-to-end scenarios: objects, events, all logs.
E2E_LOGS ?= $(CURDIR)/bin/e2e-logs

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## show it: StatefulSets on a real control plane, and what their pods get
	@$(GO) run ./test/demo

.PHONY: build
build: ## build the programs into bin
	$(GO) build -trimpath -tags $(TAGS) -o bin/ ./cmd/...

.PHONY: rig
rig: ## build the control plane's programs, unless they are there
	@$(RIG) build

.PHONY: test
test: check rig ## all tests: formatting, vet, unit, golden, control plane
	STATEGRAFT_RIG=1 STATEGRAFT_RACE=$(if $(RACE),1) $(GO) test $(RACE) -count=1 -timeout 30m ./...
	cd test/alerts && $(GO) test -count=1 ./...
	cd test/crds && $(GO) test -count=1 ./...

.PHONY: unit
unit: ## the tests that start nothing, in seconds
	$(GO) test ./...
	cd test/alerts && $(GO) test ./...
	cd test/crds && $(GO) test ./...

.PHONY: check
check: check-generated ## gofmt, go vet, and that go.mod is tidy and nothing generated stale
	@unformatted=$$($(GOFMT) -l .); if [ -n "$$unformatted" ]; then \
		echo "not formatted; run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) mod tidy -diff
	cd test/alerts && $(GO) vet ./... && $(GO) mod tidy -diff
	cd test/crds && $(GO) vet ./... && $(GO) mod tidy -diff
	cd api/medusa/generate && $(GO) vet ./... && $(GO) mod tidy -diff

.PHONY: generate
generate: ## write what is generated from the types and messages in api
	$(CONTROLLER_GEN) output:object:dir=api/v1alpha1 output:crd:dir=deploy/chart/files/crds
	$(PROTO_GEN) "$(CURDIR)/api/medusa"

.PHONY: check-generated
check-generated: ## that it is what they give
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	$(CONTROLLER_GEN) output:object:dir="$$dir" output:crd:dir="$$dir" && \
	($(PROTO_GEN) "$$dir") && \
	for file in api/v1alpha1/zz_generated.deepcopy.go api/medusa/*.pb.go deploy/chart/files/crds/*.yaml; do \
		cmp -s "$$file" "$$dir/$$(basename "$$file")" || stale="$$stale $$file"; rm -f "$$dir/$$(basename "$$file")"; \
	done && for file in $$(ls "$$dir"); do stale="$$stale $$file"; done; \
	if [ -n "$$stale" ]; then echo "stale; run make generate:$$stale"; exit 1; fi

.PHONY: lint
lint: check ## check, and staticcheck
	$(GO) run $(STATICCHECK) ./...
	cd test/alerts && $(GO) run $(STATICCHECK) ./...
	cd test/crds && $(GO) run $(STATICCHECK) ./...
	cd api/medusa/generate && $(GO) run $(STATICCHECK) ./...

.PHONY: vuln
vuln: ## known vulnerabilities; asks the Go vulnerability database
	$(GO) run $(GOVULNCHECK) ./...

.PHONY: bench
bench: ## how long an admission takes: ours, an empty handler, a diffing one
	$(GO) test ./webhook -run '^$$' -bench Admission -benchmem -benchtime $(BENCHTIME) -count $(BENCHCOUNT)

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME
	@$(GO) run ./test/show -only Fuzz -fuzztime $(FUZZTIME)

.PHONY: show-webhook
show-webhook: rig ## what the webhook has to show, a line each: pass or fail, figure
	@$(GO) run ./test/show

.PHONY: show-cassandra
show-cassandra: ## what an injected pod has to show, on a node with real Cassandra (root, Debian)
	@$(GO) run ./test/e2e/cmd/show -logs "$(E2E_LOGS)"

.PHONY: e2e
e2e: ## the same, with lengths of time printed and not judged: for a machine that is not quiet; and a little of the next three
	@$(GO) run ./test/e2e/cmd/show -times print -logs "$(E2E_LOGS)"
	@$(GO) run ./test/e2e/cmd/daily -times print -logs "$(E2E_LOGS)"

.PHONY: manifests
manifests: ## render the manifests of deploy from its chart; builds Helm, once
	@$(GO) run ./deploy/cmd/manifests

.PHONY: show-deploy
show-deploy: ## what an installation has to show, on a node with the chart installed (root, Debian)
	@$(GO) run ./test/deploy/cmd/show -logs "$(CURDIR)/bin/deploy-logs"

.PHONY: show-restore
show-restore: rig ## what a Restore has to show, on a node with real Cassandra and on the rig (root, Debian)
	@$(GO) run ./test/e2e/cmd/restore -logs "$(CURDIR)/bin/restore-logs"

.PHONY: show-backup
show-backup: rig ## what backups have to show, on a node with real Cassandra and on the rig (root, Debian)
	@$(GO) run ./test/e2e/cmd/backup -timeout 2h -logs "$(CURDIR)/bin/backup-logs"

.PHONY: show-kvs
show-kvs: rig ## what Anna and Cloudburst have to show, on a node with test nodes in their place (root, Debian)
	@$(GO) run ./test/e2e/cmd/kvs -timeout 2h -logs "$(CURDIR)/bin/kvs-logs"

.PHONY: show-adopt
show-adopt: rig ## what adoption has to show, on a node with real Cassandra and on the rig (root, Debian)
	@$(GO) run ./test/e2e/cmd/adopt -timeout 2h -logs "$(CURDIR)/bin/adopt-logs"

.PHONY: update-golden
update-golden: ## write the golden results anew, to be read in the diff
	$(GO) test ./... -update

.PHONY: update-reviews
update-reviews: rig ## record anew the requests that the benchmark runs on
	STATEGRAFT_RIG=1 UPDATE_REVIEWS=1 $(GO) test -count=1 ./test/controlplane -run TestCaptureReviews -v

.PHONY: tidy
tidy: ## format, and tidy go.mod
	$(GOFMT) -w .
	$(GO) mod tidy

.PHONY: clean
clean: ## remove what was built here; the control plane stays cached
	rm -rf bin
	find . -name '*.test' -type f -delete
