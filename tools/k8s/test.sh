#!/usr/bin/env bash
# Runs the tests that want a cluster in one of their own. On a machine that cannot have one it says what is missing, and
# reports them as skipped. Every step has a time limit.
# usage: test.sh COOP [TEST...]      COOP is the program to put into the image
set -euo pipefail
. "$(dirname "$(realpath "$0")")/paths.sh"
coop=$(realpath "$1")
shift
# The cluster's own test, and of the cases that run with each launcher those that have most to do with a cluster.
[ $# != 0 ] || set -- kube::cluster::ten_agents_on_two_nodes_outlive_what_is_broken \
  daemon::an_ask_outlives_the_daemon_and_is_answered_once_by_name::kubernetes \
  daemon::actions::rules_and_actions_answer_asks_and_limits_call_a_person::kubernetes \
  daemon::faults::a_sidecar_that_is_killed_ends_its_agent_once_and_the_conversation_goes_on_in_another::kubernetes \
  daemon::golden::what_the_commands_print::kubernetes

skip() {
  echo "test-k8s: skipped, this machine cannot run a cluster. It lacks $1"
  printf 'test-k8s\tno cluster can run: this machine lacks %s\n' "$1" >>"${COOP_SKIPS:-/dev/null}"
  exit 0
}
limited() { timeout --kill-after=10 "$@"; }

why=$("$here/can.sh") || skip "$why"
limited 900 "$here/deps.sh" || skip 'packages that cannot be had; what was tried is above'
# Once more with what has been installed.
why=$("$here/can.sh") || skip "$why"
[ -d "$bin" ] || echo "test-k8s: building Kubernetes from Debian's source, once; that takes about ten minutes"
limited 1200 "$here/build.sh" || skip 'a control plane that can be built; what was tried is above'
export COOP_K8S=$here/cluster.sh COOP_K8S_KUBECTL=$kubectl
filter=$(printf 'test(=%s) + ' "$@")
began=$SECONDS
"$COOP_K8S" run "$coop" cargo nextest run --workspace --offline --no-capture --run-ignored all -E "${filter% + }" || code=$?
[ "${code:-0}" != 75 ] || skip 'what a cluster needs to come up; where its logs are is above'
[ "${code:-0}" = 0 ] || exit "$code"
echo "test-k8s: passed in $((SECONDS - began)) s"
