#!/usr/bin/env bash
# Runs the scripted agent in a sidecar. On a terminal it opens it; elsewhere it gives it a task, allows what it asks, and
# shows what came of it. All its files are in a folder that goes with it.
set -euo pipefail
coop=$(realpath "$1")
folder=$(mktemp -d)
# Whatever else is set or configured is not for the demo.
unset "${!COOP@}" CLAUDE_CONFIG_DIR
export HOME=$folder XDG_RUNTIME_DIR=$folder XDG_STATE_HOME=$folder/state
mkdir "$folder/project"
cd "$folder/project"
# Before the sidecar: it must be there when it is looked into.
: >"$folder/lines"
"$coop" --port 0 --socket "$folder/coop.sock" --agent claude --isolate --log-format text -- "$coop" sim claude \
  >>"$folder/lines" 2>"$folder/log" &
sidecar=$!
trap 'kill "$sidecar" 2>/dev/null || true; wait "$sidecar" 2>/dev/null || true; rm -rf "$folder"' EXIT
until grep -q '^ready$' "$folder/lines"; do
  kill -0 "$sidecar" 2>/dev/null || { cat "$folder/log" >&2; exit 1; }
  sleep 0.05
done
url=$(sed -n 's/^listening http //p' "$folder/lines")
echo "The scripted agent runs at $url, in $PWD."

if [ -t 0 ] && [ -t 1 ]; then
  echo "From another terminal:"
  echo "  curl $url/api/v1/agent/nudge -d '{\"message\": \"Write a test\"}'"
  echo "  curl $url/api/v1/agent/asks"
  echo "  curl $url/api/v1/agent/respond -d '{\"accept\": true}'"
  echo "  curl $url/api/v1/agent"
  read -rp "Press Enter to open it here. Ctrl-] leaves it, which ends this demo and the agent. "
  "$coop" attach "$folder/coop.sock" 2>"$folder/said" || true
  # It says how to come back, but nothing is left to come back to.
  grep -v '^\[detached' "$folder/said" >&2 || true
  echo "The demo is over and its agent ended. To keep one: $coop --agent claude --isolate -- $coop sim claude"
  exit
fi

command -v curl >/dev/null || { echo "without a terminal the demo needs curl" >&2; exit 1; }
api() { curl -sS -w '\n' --max-time 60 "$url/api/v1/$@"; }
call() { # Shows what is asked, and the answer.
  printf '\n$ curl %s' "$url/api/v1/$1"
  [ $# -eq 1 ] || printf " -d '%s'" "$3"
  echo
  api "$@" | sed '/^$/d'
}
name() { api agent | sed -n 's/.*"name":"\([a-z]*\)".*/\1/p'; }
until_is() { # NAME...: until the agent's state is one of these.
  for _ in $(seq 600); do
    case " $* " in *" $(name) "*) return ;; esac
    sleep 0.1
  done
  echo "the agent is $(name), not $*" >&2
  cat "$folder/log" >&2
  return 1
}
until_is idle
call agent/nudge -d '{"message": "Write a test"}'
until_is prompt idle
while [ "$(name)" = prompt ]; do
  call agent/asks
  ask=$(api agent/asks | sed -n 's/^{"asks":\[{"id":"\([^"]*\)".*/\1/p')
  call agent/respond -d "{\"ask\": \"$ask\", \"accept\": true}"
  until_is prompt idle
done
call screen/text
call agent
