#!/usr/bin/env bash
# A PostgreSQL server for tests: data and socket in a fresh folder, no TCP port.
# usage: postgres.sh run COMMAND...        runs a command with COOP_TEST_POSTGRES naming the folder of a server
#        postgres.sh serve                 prints the folder, then reads `start` and `stop` (as a crash would) and answers
#                                          each with `done`; the server ends with the standard input
#        postgres.sh database FOLDER NAME  makes a database
set -euo pipefail
if ! command -v initdb >/dev/null; then
  newest=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -1)
  [ ! -x "$newest/initdb" ] || PATH=$newest:$PATH
fi

run() {
  # A process of its own reads from the pipe, so that the server ends when this script does.
  local server
  coproc server { exec bash "$0" serve 2>/dev/null; }
  local answers=${server[0]} words=${server[1]} pid=$server_PID code=0
  # Without a server the tests that need one report that they were skipped.
  if read -r COOP_TEST_POSTGRES <&"$answers"; then export COOP_TEST_POSTGRES; else unset COOP_TEST_POSTGRES; fi
  "$@" || code=$?
  exec {words}>&-
  wait "$pid" || true
  return "$code"
}

serve() {
  command -v initdb >/dev/null || { echo "PostgreSQL is not installed" >&2; exit 3; }
  if [ "$(id -u)" = 0 ]; then
    # A server refuses to run as root. The other user may not be able to read this file.
    exec runuser -u postgres -- env PATH="$PATH" bash -c "$(cat "$0")" postgres.sh serve
  fi
  # A short path, because sockets need one.
  cd /
  folder=$(mktemp -d /tmp/coop-pg-XXXXXX)
  trap 'pg_ctl -D "$folder/data" -m immediate stop >/dev/null 2>&1 || true; rm -rf "$folder"' EXIT
  chmod 755 "$folder"
  initdb --no-sync --auth=trust --username=coop --encoding=UTF8 --locale=C -D "$folder/data" >"$folder/log" 2>&1
  start
  createdb -h "$folder" -U coop coop
  echo "$folder"
  while read -r word; do
    case $word in
      start) start ;;
      stop) pg_ctl -D "$folder/data" -m immediate stop >/dev/null ;;
    esac
    echo done
  done
}

start() {
  # Nothing here outlives the machine, so nothing is waited for but the processes.
  pg_ctl -w -D "$folder/data" -l "$folder/log" \
    -o "-k $folder -c listen_addresses= -c fsync=off -c max_connections=200" start >/dev/null
}

case $1 in
  run) shift && run "$@" ;;
  serve) serve ;;
  database) createdb -h "$2" -U coop "$3" ;;
  *) echo "postgres.sh: run COMMAND..., serve, or database FOLDER NAME" >&2; exit 2 ;;
esac
