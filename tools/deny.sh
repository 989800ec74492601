#!/usr/bin/env bash
# Checks the crates of Cargo.lock by deny.toml: their licences, where they come from, and known faults (advisories). The database of
# these is a git repository: where that cannot be fetched, they are reported as skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
deny=(cargo deny --locked --log-level error)

"${deny[@]}" check --hide-inclusion-graph bans licenses sources
if ! why=$("${deny[@]}" fetch db 2>&1); then
  echo "$why" >&2
  printf 'advisories\tthe database of advisories cannot be fetched\n' | tee -a "${COOP_SKIPS:-/dev/null}"
  exit 0
fi
"${deny[@]}" check --hide-inclusion-graph --disable-fetch advisories
