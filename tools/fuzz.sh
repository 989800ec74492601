#!/usr/bin/env bash
# Fuzzes each target for so many seconds, with a seed or, without one, a new one each time. What breaks is left in
# fuzz/artifacts.
set -euo pipefail
tools=$(realpath "$1") seconds=$2 seed=${3:-0}
export PATH=$tools/bin:$PATH
cd "$(dirname "$0")/../fuzz"
passed=0
for target in screen requests; do
  echo "fuzzing $target for $seconds s"
  dict=()
  [ -f "$target.dict" ] && dict=("-dict=$target.dict")
  cargo fuzz run --sanitizer none "$target" -- "-max_total_time=$seconds" -max_len=2000 -timeout=20 -rss_limit_mb=2048 \
    -verbosity=0 "-seed=$seed" "${dict[@]}" 2>&1 | grep -vE '^"|dictionary|NEW_FUNC|^ +[0-9]+: |^ +at ' | tail -n 12
  passed=$((passed + 1))
done
echo "$passed passed, 0 failed"
