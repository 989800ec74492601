#!/bin/bash
# Writes crates/coop/layout.txt: the functions that a sidecar runs while nothing much happens, then those it needs for a
# reader. The linker puts these side by side (see crates/coop/build.rs), so that few pages of code are in memory. Where
# the list is old the program is only larger, not wrong.
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
  : >"$folder/$name.lines"
  env -i PATH="$PATH" HOME="$folder" TERM=xterm-256color timeout 300 python3 "$tools/cover.py" "$folder/$name.txt" \
    "$coop" --socket "$socket" --port 0 -- "$@" >"$folder/$name.lines" 2>"$folder/$name.log" &
  local process=$!
  until grep -q '^ready$' "$folder/$name.lines"; do
    kill -0 $process 2>/dev/null || { cat "$folder/$name.log" >&2; exit 1; }
    sleep 0.2
  done
  local url
  url=$(sed -n 's/^listening http //p' "$folder/$name.lines")
  for what in health screen agent; do
    curl -sf --max-time 60 --unix-socket "$socket" "http://localhost/api/v1/$what" >/dev/null
    curl -sf --max-time 60 "$url/api/v1/$what" >/dev/null
  done
  curl -s --max-time 5 --unix-socket "$socket" http://localhost/api/v1/events >/dev/null || true
  if [ "$name" = watched ]; then
    timeout 60 python3 "$tools/read.py" "$url" 400000 >"$folder/seen" &
    local reader=$!
    until [ -s "$folder/seen" ]; do kill -0 $reader; sleep 0.2; done
    curl -sf --max-time 60 --unix-socket "$socket" http://localhost/api/v1/input \
      -H 'content-type: application/json' -d '{"text":"go","enter":true}' >/dev/null
    wait $reader
  fi
  if [ "$name" = agent ]; then
    curl -s --max-time 60 --unix-socket "$socket" http://localhost/api/v1/agent/nudge \
      -H 'content-type: application/json' -d '{"message":"hello"}' >/dev/null || true
    sleep 3
  fi
  curl -sf --max-time 60 --unix-socket "$socket" -X POST http://localhost/api/v1/shutdown -d '{}' >/dev/null
  wait $process
}

cover idle sleep 1000
cover agent "$coop" sim claude
cover watched sh -c 'read -r line; seq 100000; exec sleep 1000'
{
  cat "$folder/idle.txt"
  comm -13 "$folder/idle.txt" "$folder/agent.txt"
  sort "$folder/idle.txt" "$folder/agent.txt" | comm -13 - "$folder/watched.txt"
} >"$tools/../../crates/coop/layout.txt"
wc -l "$tools/../../crates/coop/layout.txt"
