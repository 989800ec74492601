#!/usr/bin/env bash
# Fuzzes each target for so many seconds, always from a new seed. What breaks is left in
# fuzz/artifacts.
set -euo pipefail
tools=$(realpath "$1") seconds=$2
export PATH=$tools/bin:$PATH
cd "$(dirname "$0")/../fuzz"
if ! command -v cargo-fuzz >/dev/null; then
  echo "installing cargo-fuzz into $tools"
  cargo install --quiet --locked --root "$tools" --version 0.13.2 cargo-fuzz
fi
passed=0
for target in screen requests shell; do
  echo "fuzzing $target for $seconds s"
  dict=()
  [ -f "$target.dict" ] && dict=("-dict=$target.dict")
  cargo fuzz run --features libfuzzer --sanitizer none "$target" -- "-max_total_time=$seconds" -max_len=2000 -timeout=20 -rss_limit_mb=2048 \
    -verbosity=0 "${dict[@]}" 2>&1 | grep -vE '^"|dictionary|NEW_FUNC|^ +[0-9]+: |^ +at ' | tail -n 12
  passed=$((passed + 1))
done
echo "$passed passed, 0 failed"
