#!/usr/bin/env bash
# Lists and calls the gRPC service by reflection with a public client.
set -euo pipefail
coop=$1 buf=$2
folder=$(mktemp -d)
export HOME=$folder XDG_RUNTIME_DIR=$folder
mkfifo "$folder/lines"
timeout 120 "$coop" --grpc-port 0 --auth-token t0ken --log-level off -- sh -c 'stty -echo; cat' >"$folder/lines" &
sidecar=$!
trap 'kill "$sidecar" 2>/dev/null || true; wait "$sidecar" 2>/dev/null || true; rm -rf "$folder"' EXIT
url=
while read -r line; do
  case $line in
    "listening grpc "*) url=${line#listening grpc } ;;
    ready) break ;;
  esac
done <"$folder/lines"

call() { timeout 60 "$buf" curl --protocol grpc --http2-prior-knowledge -H 'authorization: Bearer t0ken' --reflect-header 'authorization: Bearer t0ken' "$@"; }
passed=0 failed=0
check() { # NAME EXPECTED ACTUAL
  if grep -qF -- "$2" <<<"$3"; then passed=$((passed + 1)); echo "ok   $1"; else
    failed=$((failed + 1)); echo "FAIL $1: no '$2' in: $3"; fi
}
methods=$(call --list-methods "$url")
for rpc in $(sed -n 's/^ *rpc \([A-Za-z]*\)(.*/\1/p' proto/coop/v1/coop.proto); do
  check "lists $rpc" "coop.v1.Coop/$rpc" "$methods"
done
check "lists the health service" "grpc.health.v1.Health/Check" "$methods"
check "calls GetHealth" '"status":"running"' "$(call "$url/coop.v1.Coop/GetHealth" | tr -d ' \n')"
check "calls SendInput" '"bytesWritten":3' "$(call -d '{"text":"hi","enter":true}' "$url/coop.v1.Coop/SendInput" | tr -d ' \n')"
check "calls Check" 'SERVING' "$(call "$url/grpc.health.v1.Health/Check")"
check "a wrong size is INVALID_ARGUMENT" 'invalid_argument' "$(call -d '{"cols":65535,"rows":65535}' "$url/coop.v1.Coop/Resize" 2>&1 || true)"
check "no token is UNAUTHENTICATED" 'unauthenticated' \
  "$(timeout 60 "$buf" curl --protocol grpc --http2-prior-knowledge --schema proto "$url/coop.v1.Coop/GetHealth" 2>&1 || true)"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
