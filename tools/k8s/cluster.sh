#!/usr/bin/env bash
# A real cluster of two nodes on this machine, for tests. It lives in process, mount and network namespaces of its own: its
# ports are nobody else's, and all of it ends with the first process there, however that ends.
#   cluster.sh run COOP COMMAND...   starts one with an image of this program, runs the command in it, and ends it; it fails
#                                    with 75 if the cluster did not come up, and else as the command does
# and for that command:
#   cluster.sh kill-node N           cuts the power of node N (2 or 3)
#   cluster.sh start-node N          starts it again
#   cluster.sh restart-apiserver     kills the API server and starts it again
# COOP_K8S_NODES=0 starts a control plane without nodes. COOP_K8S_LIMIT says how many seconds all of it may take.
set -euo pipefail
. "$(dirname "$(realpath "$0")")/paths.sh"
nodes=(2 3)
[ "${COOP_K8S_NODES:-2}" != 0 ] || nodes=()
# Where pods find the API server: the first address of the cluster's services. No proxy leads there, it is this machine's own.
service=10.96.0.1

say() { echo "cluster: $*" >&2; }
k() { timeout 30 "$kubectl" "$@"; }

# Waits until a command succeeds, for so many seconds at most.
until_true() {
  local limit=$1 what=$2
  shift 2
  local end=$((SECONDS + limit))
  until "$@" >/dev/null 2>&1; do
    if [ "$SECONDS" -ge "$end" ]; then
      say "$what: not within $limit s"
      return 1
    fi
    sleep 0.2
  done
}

# Starts a program with its log and its number in the folder.
start() {
  local name=$1
  shift
  setsid "$@" >>"$root/$name.log" 2>&1 </dev/null &
  echo $! >"$root/$name.pid"
  disown
}

# Tells whether a program has ended and was reaped. Not by its command line, which is empty as soon as its first thread
# has ended: other threads may hold its ports a moment longer.
is_gone() { [ ! -e "/proc/$(cat "$root/$1.pid")" ]; }

certificates() (
  mkdir -p "$root/pki"
  cd "$root/pki"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=coop-k8s-ca -keyout ca.key -out ca.crt \
    -addext keyUsage=critical,keyCertSign,cRLSign 2>/dev/null
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=kube-apiserver -keyout server.key -out server.csr 2>/dev/null
  openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -out server.crt \
    -extfile <(echo "subjectAltName=IP:127.0.0.1,IP:$service,DNS:localhost") 2>/dev/null
  openssl genrsa -out sa.key 2048 2>/dev/null
  openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null
  local token
  token=$(openssl rand -hex 16)
  echo "$token,admin,admin,system:masters" >tokens.csv
  chmod 600 ./*.key tokens.csv
  cat >"$root/kubeconfig" <<YAML
apiVersion: v1
kind: Config
clusters: [{name: coop, cluster: {server: "https://127.0.0.1:443", certificate-authority: "$root/pki/ca.crt"}}]
users: [{name: admin, user: {token: "$token"}}]
contexts: [{name: coop, context: {cluster: coop, user: admin}}]
current-context: coop
YAML
  chmod 600 "$root/kubeconfig"
)

start_apiserver() {
  start apiserver "$bin/kube-apiserver" --etcd-servers=http://127.0.0.1:12379 --bind-address=0.0.0.0 --advertise-address=127.0.0.1 \
    --secure-port=443 --endpoint-reconciler-type=none --tls-cert-file="$root/pki/server.crt" \
    --tls-private-key-file="$root/pki/server.key" --token-auth-file="$root/pki/tokens.csv" --authorization-mode=Node,RBAC \
    --service-account-issuer=https://127.0.0.1:443 --service-account-key-file="$root/pki/sa.pub" \
    --service-account-signing-key-file="$root/pki/sa.key" --service-cluster-ip-range=10.96.0.0/24 --allow-privileged=true \
    --kubelet-preferred-address-types=Hostname,InternalIP
  until_true 180 'the API server' k get --raw /readyz
}

restart_apiserver() {
  kill -KILL "$(cat "$root/apiserver.pid")"
  until_true 60 'the end of the API server' is_gone apiserver
  start_apiserver
}

start_node() {
  # The number that is kept is that of unshare, which ends with the node.
  start "node$1" unshare --mount --pid --fork --kill-child --mount-proc bash "$here/node.sh" "$root" "$bin" "$1"
}

kill_node() {
  local pid init
  pid=$(cat "$root/node$1.pid")
  init=$(cat "/proc/$pid/task/$pid/children")
  # The kernel kills all in a process namespace with its first process, and lets that go only when they are gone.
  kill -KILL $init
  until_true 60 "the end of node $1" is_gone "node$1"
}

node_is_ready() { k get node "127.0.0.$1" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' | grep -qx True; }

up() {
  mkdir -p "$root/images"
  TMPDIR=$root "$here/image.sh" pause "$root/images/pause.tar" &
  local pause=$!
  TMPDIR=$root "$here/image.sh" coop "$1" "$root/images/coop.tar" &
  local agent=$!
  certificates
  start etcd etcd --name coop --data-dir "$root/etcd" --listen-client-urls http://127.0.0.1:12379 \
    --advertise-client-urls http://127.0.0.1:12379 --listen-peer-urls http://127.0.0.1:12380 \
    --initial-advertise-peer-urls http://127.0.0.1:12380 --initial-cluster coop=http://127.0.0.1:12380 --unsafe-no-fsync
  until_true 120 etcd curl -fsS -m 2 http://127.0.0.1:12379/health
  start_apiserver
  start controllers "$bin/kube-controller-manager" --kubeconfig "$root/kubeconfig" --bind-address=127.0.0.1 --secure-port=10357 --port=0 \
    --service-account-private-key-file="$root/pki/sa.key" --root-ca-file="$root/pki/ca.crt" --use-service-account-credentials=true \
    --cert-dir="$root/pki/controllers" --leader-elect=false --node-monitor-grace-period=30s --node-monitor-period=2s \
    --pod-eviction-timeout=5s
  start scheduler "$bin/kube-scheduler" --kubeconfig "$root/kubeconfig" --bind-address=127.0.0.1 --secure-port=10359 --port=0 \
    --cert-dir="$root/pki/scheduler" --leader-elect=false
  until_true 120 'the service account' k get serviceaccount default
  wait $pause
  wait $agent
  local number
  for number in "${nodes[@]}"; do start_node "$number"; done
  for number in "${nodes[@]}"; do until_true 180 "node $number" node_is_ready "$number"; done
  say "ready after $SECONDS s"
}

# What runs as the first process of the namespaces.
inside() {
  # The API server listens on all addresses: they must be of a network that nobody else is in.
  if ip -o link show | grep -qv ': lo:'; then say 'this is not a network of its own'; exit 1; fi
  ip link set lo up
  ip address add "$service/32" dev lo
  up "$1"
  touch "$root/is-up"
  shift
  "$@"
}

# Tells which processes were started from the folder or with something in it.
processes() {
  local file line
  for file in /proc/[0-9]*/cmdline; do
    line=$(tr '\0' ' ' 2>/dev/null <"$file") || continue
    case $line in *"$root/"*) echo "${file//[^0-9]/} $line" ;; esac
  done
}
control_groups() { find /sys/fs/cgroup -type d -name "${root##*/}*" 2>/dev/null; }
# Groups in groups, from the innermost; one that has a process a moment longer is tried again.
nothing_is_left() {
  find /sys/fs/cgroup -depth -type d -path "*/${root##*/}*" -exec rmdir {} + 2>/dev/null || true
  [ -z "$(control_groups)" ] && [ -z "$(processes)" ] && ! grep -qF " $root" /proc/self/mounts
}

end_all() {
  local code=$?
  trap - EXIT
  [ "$code" = 0 ] || [ -e "$root/is-up" ] || code=75
  trap '' INT TERM HUP
  if [ -n "${child:-}" ]; then
    kill -KILL "$child" 2>/dev/null || true
    wait "$child" 2>/dev/null || true
  fi
  if ! until_true 120 'the end of all of it' nothing_is_left; then
    processes >&2
    control_groups >&2
    grep -F " $root" /proc/self/mounts >&2
    code=1
  elif [ "$code" = 0 ]; then
    rm -rf "$root"
  else
    find "$root" -type f ! -name '*.log' -delete 2>/dev/null || true
    say "its logs are in $root"
  fi
  exit "$code"
}

run() {
  root=$(mktemp -d -t coop-k8s.XXXXXX)
  export COOP_K8S_ROOT=$root KUBECONFIG=$root/kubeconfig
  trap end_all EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  # Whoever of these dies, also by a signal that nobody can catch, takes the next with it, down to the namespaces.
  setpriv --pdeathsig KILL timeout --kill-after=5 "${COOP_K8S_LIMIT:-3600}" setpriv --pdeathsig KILL \
    unshare --mount --net --pid --fork --kill-child --mount-proc bash "$here/cluster.sh" inside "$@" &
  child=$!
  wait "$child"
}

case ${1:-} in
  run) shift; run "$@"; exit ;;
  inside | kill-node | start-node | restart-apiserver) root=${COOP_K8S_ROOT:?the folder of a cluster} ;;
  *) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
case $1 in
  inside) shift; inside "$@" ;;
  kill-node) kill_node "$2" ;;
  start-node) start_node "$2" ;;
  restart-apiserver) restart_apiserver ;;
esac
