#!/usr/bin/env bash
# A PostgreSQL server for tests: data and socket in a fresh folder, no TCP port, gone when the standard input ends. It prints
# the folder, then takes words: `start`, `stop` (as a crash would), `database NAME`; each is answered with `done`.
set -euo pipefail
if ! command -v initdb >/dev/null; then
  newest=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -1)
  [ -x "$newest/initdb" ] || { echo "there is no PostgreSQL here" >&2; exit 3; }
  PATH=$newest:$PATH
fi
if [ "$(id -u)" = 0 ]; then
  # A server refuses to be root's. That user may not be able to read this file.
  exec runuser -u postgres -- env PATH="$PATH" bash -c "$(cat "$0")"
fi
# Its own of everything, wherever it is started; a short path, because sockets need one.
cd /
folder=$(mktemp -d /tmp/coop-pg-XXXXXX)
trap 'pg_ctl -D "$folder/data" -m immediate stop >/dev/null 2>&1 || true; rm -rf "$folder"' EXIT
chmod 755 "$folder"
initdb --no-sync --auth=trust --username=coop --encoding=UTF8 --locale=C -D "$folder/data" >"$folder/log" 2>&1
start() {
  # Nothing here outlives the machine, so nothing is waited for but the processes.
  pg_ctl -w -D "$folder/data" -l "$folder/log" \
    -o "-k $folder -c listen_addresses= -c fsync=off -c max_connections=200" start >/dev/null
}
start
createdb -h "$folder" -U coop coop
echo "$folder"
while read -r word name; do
  case $word in
    start) start ;;
    stop) pg_ctl -D "$folder/data" -m immediate stop >/dev/null ;;
    database) createdb -h "$folder" -U coop "$name" ;;
  esac
  echo done
done
