#!/usr/bin/env bash
# One node: containerd and a kubelet, in mount and process namespaces of their own. This is the first process there, so
# whatever kills it kills the node with every container on it, as if its power were cut.
# usage: node.sh ROOT BIN N      (called by cluster.sh through unshare)
set -euo pipefail
root=$1 bin=$2 number=$3
node=$root/node$number
mount --make-rprivate /
mkdir -p "$node"/{var,work,cni,opt}
# What programs want to write elsewhere goes into the node's folder, or with its namespace.
mount -t overlay overlay -o "lowerdir=/var,upperdir=$node/var,workdir=$node/work" /var
mount -t tmpfs tmpfs /run
mkdir -p /run/netns /var/log/pods /var/log/containers /var/lib/kubelet /var/lib/cni

cat >"$node/cni/10-bridge.conflist" <<JSON
{"cniVersion": "0.4.0", "name": "coop$number", "plugins": [{"type": "bridge", "bridge": "coop-k8s$number", "isGateway": true,
  "ipam": {"type": "host-local", "dataDir": "$node/ipam", "ranges": [[{"subnet": "10.244.10$number.0/24"}]],
           "routes": [{"dst": "0.0.0.0/0"}]}}]}
JSON
cat >"$node/containerd.toml" <<TOML
version = 2
root = "$node/containerd"
state = "/run/containerd-state"
[grpc]
  address = "$node/containerd.sock"
[ttrpc]
  address = "$node/containerd.sock.ttrpc"
[debug]
  address = "/run/containerd-debug.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  disable_apparmor = true
  stream_server_address = "127.0.0.$number"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$node/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
[plugins."io.containerd.internal.v1.opt"]
  path = "$node/opt"
TOML
cat >"$node/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.$number
healthzBindAddress: 127.0.0.$number
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
# Named after the folder, so that whoever ends the cluster finds them.
cgroupRoot: /${root##*/}-$number
cgroupsPerQOS: false
enforceNodeAllocatable: []
failSwapOn: false
makeIPTablesUtilChains: false
evictionHard: {imagefs.available: "1%", nodefs.available: "1%"}
imageGCHighThresholdPercent: 100
nodeStatusUpdateFrequency: 5s
# Ten pods at once would wait for each other's reports.
kubeAPIQPS: 50
kubeAPIBurst: 100
nodeLeaseDurationSeconds: 20
YAML

containerd -c "$node/containerd.toml" >"$node/containerd.log" 2>&1 &
for _ in $(seq 150); do
  ctr -a "$node/containerd.sock" version >/dev/null 2>&1 && break
  sleep 0.2
done
for image in "$root"/images/*.tar; do
  ctr -a "$node/containerd.sock" -n k8s.io images import "$image" >>"$node/import.log" 2>&1
done
"$bin/kubelet" --config "$node/kubelet.yaml" --kubeconfig "$root/kubeconfig" --hostname-override="127.0.0.$number" \
  --container-runtime=remote --container-runtime-endpoint="unix://$node/containerd.sock" --resolv-conf= \
  --root-dir="$node/kubelet" --cert-dir="$node/kubelet/pki" --v=1 >"$node/kubelet.log" 2>&1 &
wait -n
