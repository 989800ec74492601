#!/usr/bin/env bash
# Builds the control plane and the kubelet from Debian's source package `kubernetes` with Debian's Go, once: what is built is
# kept. It takes some ten minutes of one processor.
set -euo pipefail
. "$(dirname "$(realpath "$0")")/paths.sh"
programs=(kube-apiserver kubelet kube-controller-manager kube-scheduler)
if [ -d "$bin" ]; then exit 0; fi

# One build at a time; whoever waited finds it done. What was cut off is begun anew.
exec 9>"$kept/build.lock"
flock 9
if [ -d "$bin" ]; then exit 0; fi
work=$kept/build
rm -rf "$work"
mkdir -p "$work/apt/parts" "$work/apt/lists/partial" "$work/source" "$work/out"

# This machine's own sources of packages, with their source packages, in a folder of ours.
for file in /etc/apt/sources.list.d/*.sources; do
  if grep -q bookworm "$file"; then
    sed 's/^Types: deb$/Types: deb deb-src/' "$file" >"$work/apt/parts/$(basename "$file")"
  fi
done
apt=(-qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$work/apt/parts" -o "Dir::State::lists=$work/apt/lists")
apt-get "${apt[@]}" update
(cd "$work/source" && apt-get "${apt[@]}" --download-only source kubernetes)

export GOPATH=$work/go GOCACHE=$work/cache GO111MODULE=off CGO_ENABLED=0 GOFLAGS=${GOFLAGS:--p=2} PATH=/usr/lib/go-1.19/bin:$PATH
tree=$GOPATH/src/k8s.io/kubernetes
mkdir -p "$tree"
tar xzf "$work"/source/kubernetes_*.orig.tar.gz -C "$tree" --strip-components=1
# The reflect2 in the tree breaks under Go 1.18 and later, at the first custom resource. Debian has a later one.
rm -rf "$tree/vendor/github.com/modern-go/reflect2"
cp -rL /usr/share/gocode/src/github.com/modern-go/reflect2 "$tree/vendor/github.com/modern-go/reflect2"
cd "$tree"

# The one generated file that the tree does not bring.
go build -o "$work/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
described=$(grep -rl --include='*.go' '+k8s:openapi-gen=' pkg staging/src/k8s.io vendor/k8s.io/kube-openapi |
  grep -vE '_test.go|zz_generated|/testdata/|openapi/util|code-generator|sample-|kube-openapi/(cmd|test|pkg/generators)' |
  xargs -n1 dirname | sort -u |
  sed -e 's#^staging/src/#k8s.io/kubernetes/vendor/#' -e 's#^vendor/#k8s.io/kubernetes/vendor/#' -e 's#^pkg/#k8s.io/kubernetes/pkg/#' |
  paste -sd,)
"$work/openapi-gen" --logtostderr --go-header-file hack/boilerplate/boilerplate.generatego.txt --output-base "$GOPATH/src" \
  --output-file-base zz_generated.openapi --output-package k8s.io/kubernetes/pkg/generated/openapi \
  --input-dirs "$described" -r "$work/violations" 2>"$work/openapi-gen.log"

flags='-s -w'
for package in component-base/version client-go/pkg/version; do
  at=k8s.io/kubernetes/vendor/k8s.io/$package
  flags+=" -X $at.gitVersion=$version -X $at.gitMajor=1 -X $at.gitMinor=20"
done
for program in "${programs[@]}"; do
  began=$SECONDS
  go build -ldflags "$flags" -o "$work/out/$program" "./cmd/$program"
  echo "$program was built in $((SECONDS - began)) s"
done
# Whole or not there.
mv "$work/out" "$bin"
rm -rf "$work"
