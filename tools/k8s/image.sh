#!/usr/bin/env bash
# Makes images of what is on this machine, for tests: no registry is asked for anything.
#   image.sh pause OUT.tar           what holds a pod's namespaces
#   image.sh coop COOP OUT.tar       the repository's Dockerfile, with this program in place of the stages that build one, and on it
#                                    Debian's busybox and the libraries that the program wants; named as in deploy/kubernetes.
#                                    COOP_IMAGE_BARE=1 adds nothing, for a static program
set -euo pipefail
here=$(dirname "$(realpath "$0")")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
storage=(--root "$folder/storage" --runroot "$folder/run" --storage-driver overlay)
mkdir -p "$folder/root"

build() { buildah "${storage[@]}" build --quiet --isolation chroot "$@" >/dev/null; }

write() { # NAME OUT: the image as a file
  buildah "${storage[@]}" push --quiet "$1" "docker-archive:$folder/image.tar:$1"
  # So that no layer is a mount that is left behind.
  buildah "${storage[@]}" rmi --all --force >/dev/null
  mv "$folder/image.tar" "$2"
}

from() { # BASE NAME LINES: an image of that and of what is in $folder/root
  printf 'FROM %s\nCOPY root /\n%b' "$1" "$3" >"$folder/Dockerfile"
  build --pull-never -t "$2" -f "$folder/Dockerfile" "$folder"
}

case ${1:-} in
  pause)
    gcc -static -Os -o "$folder/root/pause" "$here/pause.c"
    from scratch localhost/pause:1 'ENTRYPOINT ["/pause"]\n'
    write localhost/pause:1 "$2"
    ;;
  coop)
    out=$folder/out
    install -D -m 755 "$2" "$out/usr/local/bin/coop"
    mkdir -p "$out/etc/ssl/certs"
    # What this machine trusts, if it trusts anybody.
    cat /etc/ssl/certs/ca-certificates.crt >"$out/etc/ssl/certs/ca-certificates.crt" 2>/dev/null || true
    name=localhost/coop:$("$2" --version | cut -d" " -f2)
    build --pull-never --build-context "build=$out" -t "$name" -f "$here/../../Dockerfile" "$here/../.."
    if [ -z "${COOP_IMAGE_BARE:-}" ]; then
      root=$folder/root
      mkdir -p "$root"/{bin,tmp}
      # A program of a Rust for glibc: its loader and libraries as they lie here.
      ldd "$2" | grep -oE '/[^ ]+' | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
      done
      cp /bin/busybox "$root/bin/busybox"
      for name_of in $("$root/bin/busybox" --list); do
        [ "$name_of" = busybox ] || ln -s busybox "$root/bin/$name_of"
      done
      from "$name" "$name" ''
    fi
    buildah "${storage[@]}" inspect --type image --format \
      'image: {{len .Docker.RootFS.DiffIDs}} layers, user {{.OCIv1.Config.User}}, {{.OCIv1.Config.Entrypoint}}' "$name" >&2
    write "$name" "$3"
    ;;
  *) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
