#!/usr/bin/env bash
# Checks the manifests in deploy/kubernetes against the schemas of the Kubernetes versions that are used today, as Kustomize
# makes them. The Agent itself has no public schema: the cluster checks it by our own definition, in test-k8s.
set -euo pipefail
. "$(dirname "$(realpath "$0")")/paths.sh"
folder=$(realpath "$here/../../deploy/kubernetes")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$kubectl" kustomize "$folder" >"$work/operator.yaml"
"$kubectl" kustomize "$folder/fleet" >"$work/fleet.yaml"
for example in sidecar standalone; do cp "$folder/examples/$example.yaml" "$work/"; done
for version in ${COOP_K8S_VERSIONS:-1.33 1.34 1.35 1.36 1.37}; do
  "$venv/bin/kubernetes-validate" --strict --quiet --kubernetes-version "$version" "$work"/*.yaml
done
