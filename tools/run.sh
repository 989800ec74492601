#!/usr/bin/env bash
# Runs the simulated agent in a sidecar. On a terminal it opens it; elsewhere it gives it a task and shows the screen.
set -euo pipefail
coop=$(realpath "$1")
folder=$(mktemp -d)
"$coop" --port 0 --socket "$folder/coop.sock" --log-format text -- "$coop" sim >"$folder/lines" 2>"$folder/log" &
sidecar=$!
trap 'kill "$sidecar" 2>/dev/null || true; wait "$sidecar" 2>/dev/null || true; rm -rf "$folder"' EXIT
until grep -q '^ready$' "$folder/lines"; do
  kill -0 "$sidecar" 2>/dev/null || { cat "$folder/log" >&2; exit 1; }
  sleep 0.05
done
url=$(sed -n 's/^listening http //p' "$folder/lines")
echo "The simulated agent runs at $url"
echo "  curl $url/api/v1/screen/text"
echo "  curl $url/api/v1/input -d '{\"text\": \"write a test\", \"enter\": true}'"
if [ -t 0 ] && [ -t 1 ]; then
  read -rp "Press Enter to open it here (Ctrl-] comes back) "
  "$coop" attach "$folder/coop.sock"
else
  "$coop" type -t "$folder/coop.sock" --enter "write a test"
  until "$coop" screen -t "$folder/coop.sock" | grep -q 'Done: write a test'; do sleep 0.1; done
  "$coop" screen -t "$folder/coop.sock" | sed '/^$/d'
fi
