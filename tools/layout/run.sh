#!/bin/bash
# Writes crates/coop/layout.txt: the functions that a sidecar runs while nothing much happens. The linker puts these
# side by side (see crates/coop/build.rs), so that few pages of code are in memory. Where the list is old the program is
# only larger, not wrong.
#
#   tools/layout/run.sh target/release/coop
set -euo pipefail
export LC_ALL=C
coop=$(realpath "$1")
tools=$(dirname "$(realpath "$0")")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# cover NAME COMMAND…: runs a sidecar with this command, asks it a few things, and ends it.
cover() {
  local name=$1 socket="$folder/$1.sock"
  shift
  env -i PATH="$PATH" HOME="$folder" TERM=xterm-256color COVER_OUT="$folder/$name.txt" \
    timeout 300 gdb -nx -batch -x "$tools/cover.py" --args "$coop" --socket "$socket" --port 0 -- "$@" >"$folder/$name.log" 2>&1 &
  local gdb=$!
  until [ -S "$socket" ]; do
    kill -0 $gdb 2>/dev/null || { cat "$folder/$name.log" >&2; exit 1; }
    sleep 0.2
  done
  sleep 5
  for what in health screen agent; do
    curl -sf --max-time 60 --unix-socket "$socket" "http://localhost/api/v1/$what" >/dev/null
  done
  curl -s --max-time 5 --unix-socket "$socket" http://localhost/api/v1/events >/dev/null || true
  if [ "$name" = agent ]; then
    curl -s --max-time 60 --unix-socket "$socket" http://localhost/api/v1/agent/nudge \
      -H 'content-type: application/json' -d '{"message":"hello"}' >/dev/null || true
    sleep 3
  fi
  curl -sf --max-time 60 --unix-socket "$socket" -X POST http://localhost/api/v1/shutdown -d '{}' >/dev/null
  wait $gdb
}

cover idle sleep 1000
cover agent "$coop" sim claude
{
  cat "$folder/idle.txt"
  comm -13 "$folder/idle.txt" "$folder/agent.txt"
} >"$tools/../../crates/coop/layout.txt"
wc -l "$tools/../../crates/coop/layout.txt"
