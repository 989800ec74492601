# Where things are; the other scripts read this. What is fetched and built is kept beside the user's other caches, so that a
# new checkout finds it; without a home that can be written, in the checkout. Each thing has its version in its name.
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
kept=${XDG_CACHE_HOME:-${HOME:-/nowhere}/.cache}/coop/k8s
if ! mkdir -p "$kept" 2>/dev/null || [ ! -w "$kept" ]; then
  kept=$(realpath -m "$here/../../.tools/k8s")
  # Whoever cannot write there either finds that out when something is to be kept.
  mkdir -p "$kept" 2>/dev/null || true
fi
version=v1.20.2
bin=$kept/$version-go1.19-$(uname -m)
kubectl_version=1.37.1 validate_version=1.37.0
venv=$kept/kubectl-$kubectl_version-validate-$validate_version
kubectl=$venv/bin/kubectl
