# Two commands matter: `make run` and `make test`. Everything they need they install themselves.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
CARGO ?= cargo
# Built once and thrown away here and in CI: what incremental builds keep is half of the disk that a build takes.
export CARGO_INCREMENTAL ?= 0
TOOLS := .tools
RECORDINGS ?= ../shared/recordings
# Always the whole workspace: with other features everything would be built once more.
BUILT = $(CARGO) test --workspace --no-run
# They wait for each other's processes more than they work: two at a time.
REAL = $(CARGO) test --workspace --test it -- --test-threads 2 --nocapture

.PHONY: help run web test lint fmt generate test-rust test-web test-xterm test-real test-mcp test-grpc test-fuzz test-k8s test-manifests chaos bench bench-web bench-k8s shots fuzz mutants layout deps clean

help: ## Show this
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

run: web ## Build everything and run a daemon with three simulated agents
	$(CARGO) build --release -p coop
	tools/run.sh target/release/coop

# The last two in this order, and the cluster last: it wants the machine for itself.
test: deps web lint test-rust test-web test-xterm test-real test-mcp test-grpc test-fuzz test-manifests test-k8s ## Install what the tests need and run them all
	@echo "make test: all passed"

lint: ## Check format and lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

fmt: ## Format the code
	$(CARGO) fmt --all

web: web/dist/page/index.html ## Build the page; the next build of the program has it inside

# Only when something of it changed: a page that is written anew is a program that is linked anew.
web/dist/page/index.html: web/node_modules/.package-lock.json $(shell find web -type f -not -path '*/node_modules/*' -not -path 'web/dist/*')
	cd web && npm run --silent build

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	# Not `ci`: that wants the bundler's programs for every system, also those that a registry does not have.
	cd web && npm install --no-save --no-audit --no-fund --loglevel=error && touch node_modules/.package-lock.json

test-web: deps web ## The page: its units, and the page itself in Chromium
	cd web && npm run --silent check && npm test --silent
	$(BUILT)
	cd tests/web && npm ci --no-audit --no-fund --loglevel=error
	node --test tests/web/*.test.mjs

bench-web: deps web ## The page under load: 200 agents, 10,000 items, a flooded terminal
	$(CARGO) build --release -p coop
	cd tests/web && npm ci --no-audit --no-fund --loglevel=error
	COOP_BIN=target/release/coop node tests/web/flood.mjs

shots: deps web ## Make the README's pictures anew
	$(BUILT)
	cd tests/web && npm ci --no-audit --no-fund --loglevel=error && node shots.mjs

test-rust: deps ## Unit, property and integration tests
	# A store is tested in a file and in PostgreSQL; without this, a machine that has none would skip the second half.
	COOP_POSTGRES=1 $(CARGO) test --workspace --no-fail-fast

chaos: ## Kill the daemon 200 times, at instants that COOP_SEED names
	COOP_CHAOS=$${COOP_CHAOS:-200} $(CARGO) test --workspace --test it -- --nocapture daemon::chaos

test-xterm: deps ## Our screen against xterm.js, case by case and with live programs
	$(BUILT)
	cd tests/xterm && npm ci --no-audit --no-fund --loglevel=error
	node tests/xterm/compare.mjs --show target/debug/examples/show --recordings $(RECORDINGS) --require-live

test-real: deps ## The real agents in coop, and what they drew against xterm.js
	$(BUILT)
	cd tests/real && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	cd tests/xterm && npm ci --no-audit --no-fund --loglevel=error
	node tests/real/record.mjs --coop target/debug/coop --out target/real
	node tests/xterm/compare.mjs --show target/debug/examples/show --raw target/real --filter raw:
	COOP_REAL_CLAUDE=$$(node tests/real/which.mjs claude) COOP_REAL_CODEX=$$(node tests/real/which.mjs codex) \
		COOP_REAL_GEMINI=$$(node tests/real/which.mjs gemini) COOP_REAL_OPENCODE=$$(node tests/real/which.mjs opencode) \
		$(REAL) claude hook keys runtimes truth codex gemini:: opencode:: opencode_link:: acp:: shim:: daemon::stops tools_real:: wrap_real:: | tee target/real/cases.txt
	node tests/real/table.mjs target/real/cases.txt

test-mcp: deps ## The tools of agents, by the public conformance suite of MCP
	$(BUILT)
	cd tests/mcp && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	node tests/mcp/run.mjs --coop target/debug/coop

test-grpc: deps ## The gRPC service by reflection, with buf
	$(BUILT)
	tests/tools/buf.sh target/debug/coop $(TOOLS)/bin/buf

test-manifests: ## The manifests in deploy/ against the Kubernetes versions of today
	tools/k8s/deps.sh pypi
	tools/k8s/validate.sh

test-k8s: ## Agents on a real cluster of two nodes, which is built the first time and kept; passed over where there can be none
	$(BUILT)
	tools/k8s/test.sh target/debug/coop

test-fuzz: deps ## A minute of fuzzing, always from the same seed
	tools/fuzz.sh $(TOOLS) 30 1

fuzz: deps ## Fuzzing for as long as FUZZ_SECONDS says, for each target
	tools/fuzz.sh $(TOOLS) $${FUZZ_SECONDS:-3600}

mutants: ## Break the drivers' rules one at a time and see that a test fails
	node tools/mutants.mjs

layout: ## Write anew which functions of the program stand side by side (see crates/coop/build.rs)
	$(CARGO) build --release -p coop
	tools/layout/run.sh target/release/coop

bench: deps ## Ratios measured side by side
	# Apart: with the other's features its functions would have other names, and not lie as layout.txt says.
	$(CARGO) build --release -p coop
	$(CARGO) build --release -p coop-bench --features coop-bench/rio
	target/release/coop-bench

bench-k8s: ## What the operator costs with 10, 50 and 100 agents
	$(CARGO) build --release -p coop
	COOP_BENCH_K8S=$(CURDIR)/target/release/coop $(CARGO) test --workspace --test it -- --nocapture kube::load

generate: ## Write generated files anew: gRPC code, OpenAPI, command line reference
	$(CARGO) run -p coop-gen
	COOP_UPDATE=1 $(CARGO) test -p coop --test it repository

deps: ## Install the programs the tests drive
	tools/deps.sh $(TOOLS)

clean: ## Remove what was built
	$(CARGO) clean
	rm -rf $(TOOLS) tests/xterm/node_modules tests/real/node_modules tests/mcp/node_modules tests/web/node_modules web/node_modules web/dist/page
