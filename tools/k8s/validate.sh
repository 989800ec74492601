#!/usr/bin/env bash
# Checks the manifests in deploy/kubernetes against the schemas of the Kubernetes versions that are used today, as Kustomize
# makes them. The Agent itself has no public schema: it is checked by our own definition, as the cluster does.
set -euo pipefail
. "$(dirname "$(realpath "$0")")/paths.sh"
folder=$(realpath "$here/../../deploy/kubernetes")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$kubectl" kustomize "$folder" >"$work/operator.yaml"
"$kubectl" kustomize "$folder/fleet" >"$work/fleet.yaml"
"$kubectl" kustomize "$folder/../overlays/second-namespace" >"$work/second.yaml"
for example in sidecar standalone; do cp "$folder/examples/$example.yaml" "$work/"; done
for version in ${COOP_K8S_VERSIONS:-1.33 1.34 1.35 1.36 1.37}; do
  "$venv/bin/kubernetes-validate" --strict --quiet --kubernetes-version "$version" "$work"/*.yaml
done
check=("$venv/bin/python" "$here/check.py")
"${check[@]}" agents "$folder/crd.yaml" "$folder"/examples/{agent,claude}.yaml
# The image is said once in an overlay, and is everywhere.
{ cat "$work/operator.yaml"; echo ---; cat "$work/fleet.yaml"; } >"$work/first.yaml"
"${check[@]}" namespace team-b registry.example/coop:0.1.0 "$work/first.yaml" "$work/second.yaml"
