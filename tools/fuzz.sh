#!/usr/bin/env bash
# Fuzzes each target for so many seconds. What breaks is left in fuzz/artifacts.
set -euo pipefail
tools=$(realpath "$1") seconds=$2
export PATH=$tools/bin:$PATH
cd "$(dirname "$0")/../fuzz"
passed=0
for target in screen requests; do
  echo "fuzzing $target for $seconds s"
  dict=()
  [ -f "$target.dict" ] && dict=("-dict=$target.dict")
  cargo fuzz run --sanitizer none "$target" -- "-max_total_time=$seconds" -max_len=2000 -timeout=20 -rss_limit_mb=2048 \
    -verbosity=0 "${dict[@]}" 2>&1 | tail -n 5
  passed=$((passed + 1))
done
echo "$passed passed, 0 failed"
