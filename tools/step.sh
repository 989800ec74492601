#!/usr/bin/env bash
# Runs one step of `make test` and records how long it took.
# usage: step.sh NAME COMMAND...    runs a command
#        step.sh --summary          prints the seconds of each step, and the tests that were skipped
# COOP_TIMES names the file with the times, COOP_SKIPS the one with the skipped tests: a line each, `test<TAB>reason`.
# In CI (CI=true) a skipped test fails the run unless a line of .ci/skips begins its line.
set -euo pipefail
cd "$(dirname "$0")/.."

summary() {
  echo "Seconds by step:"
  awk -F '\t' '{ printf "%7d  %s\n", $2, $1; sum += $2 } END { printf "%7d  together\n", sum }' "$COOP_TIMES"
  local unexpected=0
  if [ -s "$COOP_SKIPS" ]; then
    echo "Skipped:"
    while IFS=$'\t' read -r test reason; do
      echo "  $test: $reason"
      grep -qE "^$test(	|$)" .ci/skips 2>/dev/null || unexpected=$((unexpected + 1))
    done < <(sort -u "$COOP_SKIPS")
    echo "$(sort -u "$COOP_SKIPS" | wc -l) tests or parts of tests were skipped."
  else
    echo "Nothing was skipped."
  fi
  if [ "$unexpected" -gt 0 ] && [ "${CI:-}" = true ]; then
    echo "$unexpected of them are not listed in .ci/skips, which is a failure in CI." >&2
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
began=$SECONDS
"$@"
printf '%s\t%s\n' "$name" "$((SECONDS - began))" >>"$COOP_TIMES"
