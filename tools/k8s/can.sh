#!/usr/bin/env bash
# Tells whether this machine can run the cluster for tests, by trying in a second what it needs. If it cannot, it says in one
# line what is missing, and fails.
set -uo pipefail
. "$(dirname "$(realpath "$0")")/paths.sh"

cannot() { echo "$*"; exit 1; }

[ "$(id -u)" = 0 ] || cannot 'root: a node makes namespaces, mounts and control groups'

# What is not installed yet must be to be had.
wanted=(etcd containerd runc buildah ip openssl curl gcc)
[ -d "$bin" ] || wanted+=(/usr/lib/go-1.19/bin/go)
for program in "${wanted[@]}"; do
  command -v "$program" >/dev/null || grep -qs bookworm /etc/apt/sources.list.d/*.sources ||
    cannot "Debian 12's packages: $program is not here, and apt has no bookworm to take it from"
done

# Control groups: one of each kind.
probe=coop-k8s-probe.$$
groups=$(awk '$3 == "cgroup" || $3 == "cgroup2" { print $2 }' /proc/self/mounts)
[ -n "$groups" ] || cannot 'control groups: none are mounted'
controllers=$(cat /sys/fs/cgroup/cgroup.controllers /proc/self/cgroup 2>/dev/null | tr ':, ' '\n')
for controller in cpu memory pids; do
  grep -qx "$controller" <<<"$controllers" || cannot "control groups: there is no controller $controller"
done
for group in $groups; do
  # A kind without controllers, or named by another program, is not used.
  case $group in */unified | */systemd) continue ;; esac
  mkdir "$group/$probe" 2>/dev/null || cannot "control groups: $group cannot be written"
  rmdir "$group/$probe"
done

# Namespaces, and in them the mounts and the network of a node, in the folder it would have.
folder=$(mktemp -d -t coop-k8s-probe.XXXXXX)
trap 'rm -rf "$folder"' EXIT
unshare --mount --net --pid --fork --kill-child --mount-proc true 2>/dev/null ||
  cannot 'namespaces: mount, network and process namespaces cannot be made'
mkdir "$folder"/{upper,work,at}
unshare --mount mount -t overlay overlay -o "lowerdir=/var,upperdir=$folder/upper,workdir=$folder/work" "$folder/at" 2>/dev/null ||
  cannot "overlay mounts: they cannot be made in ${TMPDIR:-/tmp}"
if command -v ip >/dev/null; then
  unshare --net sh -c 'ip link set lo up && ip link add coop-probe type bridge && ip link add coop-a type veth peer name coop-b &&
    ip link set coop-a master coop-probe' 2>/dev/null || cannot 'the network: bridges and veth pairs cannot be made'
fi
