# Two commands matter: `make run` and `make test`. Everything they need they install themselves.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
CARGO ?= cargo
TOOLS := .tools
export PATH := $(CURDIR)/$(TOOLS)/bin:$(PATH)
# Built once and thrown away here and in CI: what incremental builds keep is half of the disk that a build takes.
export CARGO_INCREMENTAL ?= 0

# One build for lints and tests: Clippy's compiler lints what it builds, so that nothing is compiled a second time to be
# linted. `-D warnings`, in the form in which `cargo clippy` hands arguments to it.
LINTED := env RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__
BUILD = $(LINTED) $(CARGO) build --workspace --all-targets
NEXTEST = $(LINTED) $(CARGO) nextest run --workspace
# Tests whose real agents are named by COOP_REAL_CLAUDE and its like.
REAL_TESTS := binary_id(coop::it) & test(/^(claude|hook|keys|modes|runtimes|truth|codex|gemini|opencode|opencode_link|acp|shim|daemon::stops|tools_real|wrap_real)::/)
STEP := tools/step.sh
NPM_CI := npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
modules = tests/$(1)/node_modules/.package-lock.json

.PHONY: help run test prepare build lint fmt web test-rust test-web test-xterm test-real test-latest test-sandbox test-mcp test-grpc test-k8s \
	test-manifests chaos dist bench bench-web bench-k8s shots fuzz mutants generate deps clean

help: ## Show this. In parentheses: what a target needs, and how long it takes on two cores
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):[^#]*## /  make \1\t/' | expand -t 22

# A folder of its own: the program has other features than the one that the tests start.
run: web ## Build coop and run a daemon with three simulated agents (network; 3 min the first time)
	$(CARGO) build -p coop --no-default-features --target-dir target/run
	tools/run.sh target/run/debug/coop

test: export COOP_TIMES := $(CURDIR)/target/times.tsv
test: export COOP_SKIPS := $(CURDIR)/target/skips.tsv
test: ## Install what the tests need and run them all, without a cluster (network, root; 18 min, 13 when built)
	@mkdir -p target && rm -f $(COOP_TIMES) $(COOP_SKIPS)
	$(STEP) "install packages" $(MAKE) -s deps
	$(STEP) "build the page" $(MAKE) -s web
	$(STEP) "format" $(CARGO) fmt --all --check
	$(STEP) "dependencies" tools/deny.sh
	$(STEP) "build and lint, install modules" $(MAKE) -s -j2 prepare
	$(STEP) "unit and process tests, real agents" $(MAKE) -s test-real ONLY_REAL=
	$(STEP) "real agents in a sandbox" $(MAKE) -s test-sandbox
	$(STEP) "documentation tests" $(LINTED) $(CARGO) test --quiet --workspace --doc
	$(STEP) "the page" $(MAKE) -s test-web
	$(STEP) "xterm.js" $(MAKE) -s test-xterm
	$(STEP) "MCP" $(MAKE) -s test-mcp
	$(STEP) "gRPC" $(MAKE) -s test-grpc
	$(STEP) "manifests" $(MAKE) -s test-manifests
	@$(STEP) --summary
	@echo "make test: all passed"

prepare: build $(foreach name,web xterm real mcp,$(call modules,$(name)))

build: web ## Build and lint everything with its tests (network the first time; 6 min)
	$(BUILD)

lint: deps web ## Check format, lints and dependencies (network, root; as build, and a minute once to install cargo-deny)
	$(CARGO) fmt --all --check
	tools/deny.sh
	$(BUILD)

fmt: ## Format the code
	$(CARGO) fmt --all

web: web/dist/page/index.html ## Build the page; the next build of the program has it inside (network; 1 min)

# Only when something of it changed: a page that is written anew is a program that is linked anew.
web/dist/page/index.html: web/node_modules/.package-lock.json $(shell find web -type f -not -path '*/node_modules/*' -not -path 'web/dist/*')
	cd web && npm run --silent build

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	# Not `ci`: that wants the bundler's programs for every system, also those that a registry does not have.
	cd web && npm install --ignore-scripts --no-save --no-audit --no-fund --loglevel=error && touch node_modules/.package-lock.json

tests/%/node_modules/.package-lock.json: tests/%/package.json tests/%/package-lock.json
	cd tests/$* && $(NPM_CI) && touch node_modules/.package-lock.json

test-rust: deps build ## Unit, property and process tests, with simulated agents (network, root; 4 min when built)
	tests/tools/postgres.sh run $(NEXTEST)

# Where ONLY_REAL is empty the other tests run too.
test-real: ONLY_REAL = -E '$(REAL_TESTS)'
test-real: deps build $(call modules,real) ## The real agents, pinned versions from npm, on a fake model (network, root; under 10 min when built)
	@rm -rf target/real && mkdir -p target/real
	node tests/real/record.mjs --coop target/debug/coop --out target/real
	real=$$(node tests/real/which.mjs) && env COOP_CASES=$(CURDIR)/target/real/cases.tsv $$real \
		tests/tools/postgres.sh run $(NEXTEST) $(ONLY_REAL)
	node tests/real/table.mjs target/real/cases.tsv

test-latest: deps build ## The newest releases of the real agents, and what differs from the pinned ones (network, root; 10 min when built)
	@rm -rf target/latest && mkdir -p target/latest
	node tests/real/latest.mjs target/latest
	real=$$(COOP_REAL_MODULES=target/latest/node_modules node tests/real/which.mjs) && env COOP_CASES=$(CURDIR)/target/latest/cases.tsv $$real \
		$(NEXTEST) --no-fail-fast -E '$(REAL_TESTS)'
	node tests/real/table.mjs target/latest/cases.tsv

# Once more with every agent in a sandbox. Root cannot map itself into a further namespace, which the sandbox of Codex needs, so
# root becomes an ordinary user for these.
SANDBOX_TESTS := binary_id(coop::it) & test(/^(claude|hook|keys|modes|runtimes|truth|codex|gemini|opencode|opencode_link|acp|tools_real|wrap_real)::/) \
	+ binary_id(coop::it) & test(/^(shim::(agents|backend|briefs|steering|trust)|daemon::stops)::/) - test(/::(container|kubernetes)$$/)
test-sandbox: deps build $(call modules,real) ## The real agents once more, each in a sandbox (network, root; 6 min when built)
	@rm -rf target/sandboxed && mkdir -p target/sandboxed
	tests/tools/ordinary.sh node tests/real/record.mjs --coop target/debug/coop --out target/sandboxed --sandbox
	real=$$(node tests/real/which.mjs) && tests/tools/ordinary.sh env COOP_TEST_SANDBOX=1 $$real $(NEXTEST) -E '$(SANDBOX_TESTS)'

test-web: deps build $(call modules,web) ## The page: its units, and the page itself in Chromium (network, root; 3 min when built)
	cd web && npm run --silent check && npm test --silent
	if command -v chromium >/dev/null; then node --test tests/web/*.test.mjs; else \
		printf 'test-web\tChromium is not installed\n' | tee -a "$${COOP_SKIPS:-/dev/null}"; fi

test-xterm: deps build $(call modules,xterm) ## Our screen against xterm.js, with live programs (network, root; 1 min when built)
	node tests/xterm/compare.mjs --show target/debug/examples/show --recordings crates/coop-drivers/recordings \
		$$(if compgen -G 'target/real/*.raw' >/dev/null; then echo --raw target/real; fi)

test-mcp: deps build $(call modules,mcp) ## The tools of agents, by the public conformance suite of MCP (network, root; 1 min when built)
	node tests/mcp/run.mjs --coop target/debug/coop

test-grpc: deps build ## The gRPC service by reflection, with buf (network, root; 1 min when built)
	tests/tools/buf.sh target/debug/coop $(TOOLS)/bin/buf

test-manifests: ## The manifests in deploy/ against the Kubernetes versions of today (network; 1 min)
	tools/k8s/deps.sh pypi
	tools/k8s/validate.sh

test-k8s: deps build ## Agents on a real cluster of two nodes (network, root; 6 min when built, and 10 once to build Kubernetes)
	@$(STEP) "cluster" $(LINTED) tools/k8s/test.sh target/debug/coop

fuzz: deps ## Fuzz each target for FUZZ_SECONDS, an hour by default (network, root)
	tools/fuzz.sh $(TOOLS) $${FUZZ_SECONDS:-3600}

chaos: deps build ## Kill the daemon 200 times, at instants that COOP_SEED names (network, root; 2 min when built)
	COOP_CHAOS=$${COOP_CHAOS:-200} $(NEXTEST) --profile long --no-capture -E 'test(/^daemon::chaos/)'

mutants: deps build $(call modules,web) ## Break the drivers' rules and the guards of SECURITY.md one at a time and see that a test fails (60 min)
	node tools/mutants.mjs

dist: web ## Build the program that users get, with fat link-time optimisation (network; 12 min)
	$(CARGO) build --profile dist -p coop

bench: deps dist ## Ratios measured side by side (network, root, a quiet machine; 15 min when built)
	$(CARGO) build --profile dist -p coop-bench --features coop-bench/rio
	target/dist/coop-bench

bench-web: deps dist $(call modules,web) ## The page under load: 200 agents, 10,000 items, a flooded terminal (network, root; 3 min when built)
	COOP_BIN=target/dist/coop node tests/web/flood.mjs

bench-k8s: deps dist ## What the operator costs with 10, 50 and 100 agents (network, root; 2 min when built)
	COOP_BENCH_K8S=$(CURDIR)/target/dist/coop $(NEXTEST) --profile long --no-capture --run-ignored only -E 'test(/^kube::load/)'

shots: deps build $(call modules,web) ## Make the README's pictures anew (network, root; 2 min when built)
	cd tests/web && node shots.mjs

generate: deps build ## Write generated files anew: gRPC code, OpenAPI, command line reference (1 min when built)
	$(LINTED) $(CARGO) run -p coop-gen
	COOP_UPDATE=1 $(NEXTEST) -E 'test(/^repository::/)'

deps: ## Install the programs the tests drive (network, root; 1 min)
	tools/deps.sh $(TOOLS)

clean: ## Remove what was built
	$(CARGO) clean
	rm -rf $(TOOLS) tests/*/node_modules web/node_modules web/dist/page
