# Two commands matter: `make run` and `make test`. Everything they need they install themselves.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
CARGO ?= cargo
TOOLS := .tools
RECORDINGS ?= ../shared/recordings
# Always the whole workspace: with other features everything would be built once more.
BUILT = $(CARGO) test --workspace --no-run
# They wait for each other's processes more than they work: two at a time.
REAL = $(CARGO) test --workspace --test it -- --test-threads 2 --nocapture

.PHONY: help run test lint fmt generate test-rust test-xterm test-real test-grpc test-fuzz bench fuzz mutants layout deps clean

help: ## Show this
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

run: ## Build everything and run a simulated agent in a sidecar
	$(CARGO) build --release -p coop
	tools/run.sh target/release/coop

test: deps lint test-rust test-xterm test-real test-grpc test-fuzz ## Install what the tests need and run them all
	@echo "make test: all passed"

lint: ## Check format and lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

fmt: ## Format the code
	$(CARGO) fmt --all

test-rust: deps ## Unit, property and integration tests
	$(CARGO) test --workspace

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
		$(REAL) claude hook keys runtimes truth codex gemini:: opencode:: opencode_link:: acp:: shim::agents opencode_goes_on | tee target/real/cases.txt
	node tests/real/table.mjs target/real/cases.txt

test-grpc: deps ## The gRPC service by reflection, with buf
	$(BUILT)
	tests/tools/buf.sh target/debug/coop $(TOOLS)/bin/buf

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
	$(CARGO) build --release -p coop -p coop-bench --features coop-bench/rio
	target/release/coop-bench

generate: ## Write generated files anew: gRPC code, OpenAPI, command line reference
	$(CARGO) run -p coop-gen
	COOP_UPDATE=1 $(CARGO) test -p coop --test it repository

deps: ## Install the programs the tests drive
	tools/deps.sh $(TOOLS)

clean: ## Remove what was built
	$(CARGO) clean
	rm -rf $(TOOLS) tests/xterm/node_modules tests/real/node_modules
