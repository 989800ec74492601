#!/usr/bin/env bash
# Runs a command as an ordinary user: root runs it in a user namespace in which root is user 1000 and has no rights.
set -euo pipefail
if ! bwrap --unshare-user --unshare-pid --ro-bind / / true 2>/dev/null; then
  printf 'test-sandbox\tbubblewrap cannot make a sandbox here\n' | tee -a "${COOP_SKIPS:-/dev/null}"
elif [ "$(id -u)" = 0 ]; then
  # What is root's seems to be the ordinary user's there, bubblewrap too.
  exec unshare --user --map-user=1000 --map-group=1000 -- env COOP_BUBBLEWRAP="$(command -v bwrap)" "$@"
else
  exec "$@"
fi
