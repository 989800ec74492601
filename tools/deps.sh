#!/usr/bin/env bash
# Installs what the tests drive and is not there yet: Debian packages, and Python tools into a folder of our own.
set -euo pipefail
tools=$1

declare -A packages=(
  [bwrap]=bubblewrap [tmux]=tmux [screen]=screen [vim]=vim [less]=less [htop]=htop [python3]=python3 [valgrind]=valgrind [ps]=procps [g++]=g++ [curl]=curl [git]=git
  [chromium]=chromium
)
missing=()
for program in "${!packages[@]}"; do
  command -v "$program" >/dev/null || missing+=("${packages[$program]}")
done
# Its programs are on nobody's path. Tests start servers of their own, so none is wanted for the whole machine.
if ! command -v initdb >/dev/null && ! compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; then
  missing+=(postgresql)
fi
python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
install_packages() {
  local sudo=()
  [ "$(id -u)" = 0 ] || sudo=(sudo)
  "${sudo[@]}" apt-get update -qq || return
  if [[ " ${missing[*]} " == *" postgresql "* && ! -e /etc/postgresql-common ]]; then
    "${sudo[@]}" mkdir -p /etc/postgresql-common/createcluster.d
    echo "create_main_cluster = false" | "${sudo[@]}" tee /etc/postgresql-common/createcluster.d/coop-tests.conf >/dev/null
  fi
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq "${missing[@]}" >/dev/null
}
if [ "${#missing[@]}" -gt 0 ]; then
  echo "installing ${missing[*]}"
  install_packages || echo "cannot install ${missing[*]}: tests that need them are skipped" >&2
fi

if [ ! -x "$tools/bin/buf" ]; then
  echo "installing buf into $tools"
  python3 -m venv "$tools"
  "$tools/bin/python3" -m pip install --quiet --disable-pip-version-check buf-bin==1.75.0
fi

if ! command -v cargo-deny >/dev/null; then
  echo "installing cargo-deny into $tools (a minute)"
  CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off cargo install --quiet --locked --root "$tools" --version 0.20.2 cargo-deny
fi

if ! command -v cargo-nextest >/dev/null; then
  echo "installing cargo-nextest into $tools (some minutes)"
  # Not optimised: it waits for tests, and is built twice as quickly.
  CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off cargo install --quiet --locked --root "$tools" --version 0.9.120 \
    --no-default-features --features default-no-update cargo-nextest
fi
