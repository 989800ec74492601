#!/usr/bin/env bash
# Runs one step of `make test` and records how long it took.
# usage: step.sh NAME COMMAND...    runs a command
#        step.sh --summary          prints the seconds of each step, and the tests that were skipped
# COOP_TIMES names the file with the times, COOP_SKIPS the one with the skipped tests: a line each, `test<TAB>reason`.
# In CI (CI=true) a skipped test fails the run unless .ci/skips names it.
set -euo pipefail
cd "$(dirname "$0")/.."

summary() {
  echo "Seconds by step:"
  awk -F '\t' '{ printf "%7d  %s\n", $2, $1; sum += $2 } END { printf "%7d  together\n", sum }' "$COOP_TIMES"
  if [ ! -s "$COOP_SKIPS" ]; then
    echo "No test was skipped."
    return
  fi
  local skips unexpected=0
  skips=$(sort -u "$COOP_SKIPS")
  echo "Skipped, $(wc -l <<<"$skips") tests or parts of tests:"
  while IFS=$'\t' read -r test reason; do
    echo "  $test: $reason"
    cut -f 1 .ci/skips | grep -qxF -- "$test" || unexpected=$((unexpected + 1))
  done <<<"$skips"
  if [ "$unexpected" -gt 0 ] && [ "${CI:-}" = true ]; then
    echo "$unexpected of them are not named in .ci/skips, which fails CI." >&2
    exit 1
  fi
}

if [ "$1" = --summary ]; then
  summary
  exit
fi
name=$1
shift
echo "== $name"
began=$SECONDS code=0
"$@" || code=$?
[ -z "${COOP_TIMES:-}" ] || printf '%s\t%s\n' "$name" "$((SECONDS - began))" >>"$COOP_TIMES"
[ "$code" = 0 ] || echo "step.sh: \"$name\" failed" >&2
exit "$code"
