#!/usr/bin/env bash
# Installs what the tests drive and is not there yet: Debian packages, and Python tools into a folder of our own.
set -euo pipefail
tools=$1

declare -A packages=(
  [tmux]=tmux [screen]=screen [vim]=vim [less]=less [htop]=htop [python3]=python3 [valgrind]=valgrind [ps]=procps [g++]=g++ [curl]=curl
)
missing=()
for program in "${!packages[@]}"; do
  command -v "$program" >/dev/null || missing+=("${packages[$program]}")
done
python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
if [ "${#missing[@]}" -gt 0 ]; then
  echo "installing ${missing[*]}"
  sudo=()
  [ "$(id -u)" = 0 ] || sudo=(sudo)
  "${sudo[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq "${missing[@]}" >/dev/null
fi

if [ ! -x "$tools/bin/buf" ]; then
  echo "installing buf into $tools"
  python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check buf-bin==1.75.0
fi

if [ ! -x "$tools/bin/cargo-fuzz" ]; then
  echo "installing cargo-fuzz into $tools"
  cargo install --quiet --locked --root "$tools" --version 0.13.2 cargo-fuzz
fi
