#!/usr/bin/env bash
# Runs a fleet of three simulated agents: one works, one asks for a permission, one is idle. On a terminal it goes on until
# Ctrl-C; elsewhere it answers what is asked and ends. All its files are in a folder that goes with it.
set -euo pipefail
coop=$(realpath "$1")
folder=$(mktemp -d -t coop.XXXXXX)
# Whatever else is set or configured is not for the demo.
unset "${!COOP@}" CLAUDE_CONFIG_DIR
export HOME=$folder XDG_RUNTIME_DIR=$folder XDG_STATE_HOME=$folder COOP_STATE=$folder/state
pid=
# The daemon leads a session of its own, so that Ctrl-C reaches only this script, which ends the agents too.
stop() {
  trap '' INT TERM HUP
  if [ -n "$pid" ]; then
    "$coop" down --kill >/dev/null 2>&1 || true
    while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
  fi
  jobs -p | xargs -r kill 2>/dev/null || true
  rm -rf "$folder"
}
trap stop EXIT
trap 'exit 1' TERM HUP
trap 'echo; echo "Stopped, and nothing is left."; exit 0' INT

mkdir "$folder/project"
cd "$folder/project"
cat >coop.toml <<TOML
[agents.porter]
driver = "claude"
command = ["$coop", "sim", "claude"]
isolate = true
kind = "crew"
prompt = "Port the parser. [[hang]]"

[agents.tester]
driver = "claude"
command = ["$coop", "sim", "claude"]
isolate = true
kind = "crew"
prompt = "Write a test. [[bash:echo ok > test.txt]] [[text:The test is written.]]"

[agents.reader]
driver = "claude"
command = ["$coop", "sim", "claude"]
isolate = true
kind = "crew"
prompt = "Read the notes. [[text:I have read them.]]"
TOML
"$coop" up --detach --port 0 >"$folder/lines" || { cat "$COOP_STATE/fleet.log" >&2; exit 1; }
pid=$("$coop" status --json | sed -n 's/.*"pid":\([0-9]*\).*/\1/p')
url=$(sed -n 's/^listening http //p' "$folder/lines")
for agent in porter tester reader; do "$coop" spawn $agent >/dev/null; done
"$coop" wait tester --for ask --timeout 60
"$coop" wait reader --for idle --timeout 60
until "$coop" show porter --json | grep -q '"phase":"working"'; do sleep 0.05; done

echo "A daemon with three simulated agents runs at $url"
echo
"$coop" ls
if [ -t 0 ] && [ -t 1 ]; then
  cat <<TEXT

Try next, in another terminal:

  export COOP_STATE=$COOP_STATE; alias coop=$coop
  coop asks
  coop respond tester yes
  coop wait tester --for idle && coop show tester
  coop send reader 'Say hello. [[text:Hello!]]'
  coop attach porter            # Ctrl-] leaves it
  curl $url/api/v1/agents

Ctrl-C here ends all of it.
TEXT
  sleep infinity &
  wait $!
fi

show() { # Shows what is asked, and the answer.
  printf '\n$ coop %s\n' "$*"
  "$coop" "$@"
}
show asks
show respond tester yes --ask ask-1
show wait tester --for idle --timeout 60
show ls
show down --kill
