# Two commands matter: `make run` and `make test`. Everything they need they install themselves.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
CARGO ?= cargo
TOOLS := .tools
export PATH := $(CURDIR)/$(TOOLS)/bin:$(PATH)
# Built once and thrown away here and in CI: what incremental builds keep is half of the disk that a build takes.
export CARGO_INCREMENTAL ?= 0
export COOP_TIMES := $(CURDIR)/target/times.tsv
export COOP_SKIPS := $(CURDIR)/target/skips.tsv

# One build for lints and tests: Clippy's compiler lints what it builds, so that nothing is compiled a second time to be
# linted. `-D warnings`, in the form in which `cargo clippy` hands arguments to it.
LINTED := env RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__
BUILD = $(LINTED) $(CARGO) build --workspace --all-targets
NEXTEST = $(LINTED) $(CARGO) nextest run --workspace
# Tests whose real agents are named by COOP_REAL_CLAUDE and its like.
REAL_TESTS := test(/^(claude|hook|keys|runtimes|truth|codex|gemini|opencode|opencode_link|acp|shim|daemon::stops|tools_real|wrap_real)::/)
STEP := tools/step.sh
NPM_CI := npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
MODULES := $(foreach name,web xterm real mcp,tests/$(name)/node_modules/.package-lock.json)

.PHONY: help run test prepare build lint fmt web test-rust test-web test-xterm test-real test-mcp test-grpc test-k8s \
	test-manifests chaos dist bench bench-web bench-k8s shots fuzz mutants generate deps clean

help: ## Show this
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):[^#]*## /  make \1\t/' | expand -t 22
	@echo
	@echo "Minutes are those of two cores. Everything but run, build, lint and fmt installs Debian packages (as root, or with sudo)"
	@echo "and modules from the npm registry the first time."

run: web ## Build coop and run a daemon with three simulated agents (network; 4 minutes the first time)
	$(CARGO) build -p coop --no-default-features
	tools/run.sh target/debug/coop

test: ## Install what the tests need and run them all, without a cluster (network, root; 20 minutes, 12 when built)
	@rm -f $(COOP_TIMES) $(COOP_SKIPS) && mkdir -p target
	$(STEP) "install packages" $(MAKE) -s deps
	$(STEP) "build the page" $(MAKE) -s web
	$(STEP) "format" $(CARGO) fmt --all --check
	$(STEP) "build and lint, install modules" $(MAKE) -s -j2 prepare
	$(STEP) "unit and process tests, real agents" $(MAKE) -s test-real ONLY_REAL=
	$(STEP) "documentation tests" $(LINTED) $(CARGO) test --quiet --workspace --doc
	$(STEP) "the page" $(MAKE) -s test-web
	$(STEP) "xterm.js" $(MAKE) -s test-xterm
	$(STEP) "MCP" $(MAKE) -s test-mcp
	$(STEP) "gRPC" $(MAKE) -s test-grpc
	$(STEP) "manifests" $(MAKE) -s test-manifests
	@$(STEP) --summary
	@echo "make test: all passed"

prepare: build $(MODULES)

build: web ## Build and lint everything with its tests (network the first time; 8 minutes)
	$(BUILD)

lint: web ## Check format and lints
	$(CARGO) fmt --all --check
	$(BUILD)

fmt: ## Format the code
	$(CARGO) fmt --all

web: web/dist/page/index.html ## Build the page; the next build of the program has it inside (network)

# Only when something of it changed: a page that is written anew is a program that is linked anew.
web/dist/page/index.html: web/node_modules/.package-lock.json $(shell find web -type f -not -path '*/node_modules/*' -not -path 'web/dist/*')
	cd web && npm run --silent build

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	# Not `ci`: that wants the bundler's programs for every system, also those that a registry does not have.
	cd web && npm install --ignore-scripts --no-save --no-audit --no-fund --loglevel=error && touch node_modules/.package-lock.json

tests/%/node_modules/.package-lock.json: tests/%/package.json tests/%/package-lock.json
	cd tests/$* && $(NPM_CI) && touch node_modules/.package-lock.json

test-rust: deps build ## Unit, property and process tests, with simulated agents (6 minutes)
	tests/tools/postgres.sh run $(NEXTEST)

# Where ONLY_REAL is empty the other tests run too.
test-real: ONLY_REAL = -E '$(REAL_TESTS)'
test-real: deps build $(MODULES) ## The real agents, pinned versions from npm, against a fake model (9 minutes)
	@rm -rf target/real && mkdir -p target/real
	node tests/real/record.mjs --coop target/debug/coop --out target/real
	env COOP_CASES=$(CURDIR)/target/real/cases.tsv $$(node tests/real/which.mjs) tests/tools/postgres.sh run \
		$(NEXTEST) $(ONLY_REAL)
	node tests/real/table.mjs target/real/cases.tsv

test-web: deps build $(MODULES) ## The page: its units, and the page itself in Chromium (3 minutes)
	cd web && npm run --silent check && npm test --silent
	node --test tests/web/*.test.mjs

test-xterm: deps build $(MODULES) ## Our screen against xterm.js, case by case and with live programs
	node tests/xterm/compare.mjs --show target/debug/examples/show --recordings crates/coop-drivers/recordings --require-live \
		$$(ls target/real/*.raw >/dev/null 2>&1 && echo --raw target/real)

test-mcp: deps build $(MODULES) ## The tools of agents, by the public conformance suite of MCP
	node tests/mcp/run.mjs --coop target/debug/coop

test-grpc: deps build ## The gRPC service by reflection, with buf
	tests/tools/buf.sh target/debug/coop $(TOOLS)/bin/buf

test-manifests: ## The manifests in deploy/ against the Kubernetes versions of today
	tools/k8s/deps.sh pypi
	tools/k8s/validate.sh

test-k8s: build ## Agents on a real cluster of two nodes (root; 6 minutes, and 10 more the first time to build Kubernetes)
	@$(STEP) "cluster" $(LINTED) tools/k8s/test.sh target/debug/coop
	@$(STEP) --summary

fuzz: deps ## Fuzz each target for FUZZ_SECONDS, an hour by default (`make test` has seeded inputs for each)
	tools/fuzz.sh $(TOOLS) $${FUZZ_SECONDS:-3600}

chaos: build ## Kill the daemon 200 times, at instants that COOP_SEED names
	COOP_CHAOS=$${COOP_CHAOS:-200} $(NEXTEST) --no-capture -E 'test(/^daemon::chaos/)'

mutants: ## Break the drivers' rules one at a time and see that a test fails
	node tools/mutants.mjs

dist: web ## Build the program that users get, with fat link-time optimisation (12 minutes)
	$(CARGO) build --profile dist -p coop

bench: deps dist ## Ratios measured side by side (10 minutes on a quiet machine)
	$(CARGO) build --profile dist -p coop-bench --features coop-bench/rio
	target/dist/coop-bench

bench-web: dist tests/web/node_modules/.package-lock.json ## The page under load: 200 agents, 10,000 items, a flooded terminal
	COOP_BIN=target/dist/coop node tests/web/flood.mjs

bench-k8s: dist ## What the operator costs with 10, 50 and 100 agents
	COOP_BENCH_K8S=$(CURDIR)/target/dist/coop $(NEXTEST) --no-capture --run-ignored only -E 'test(/^kube::load/)'

shots: deps build tests/web/node_modules/.package-lock.json ## Make the README's pictures anew
	cd tests/web && node shots.mjs

generate: ## Write generated files anew: gRPC code, OpenAPI, command line reference
	$(CARGO) run -p coop-gen
	COOP_UPDATE=1 $(CARGO) test -p coop --test it repository

deps: ## Install the programs the tests drive (network, root)
	tools/deps.sh $(TOOLS)

clean: ## Remove what was built
	$(CARGO) clean
	rm -rf $(TOOLS) tests/*/node_modules web/node_modules web/dist/page
