#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds what the sandbox and the tests run beside our own programs into bin/, from the Go modules pinned in this folder: Kubernetes' servers,
# kwok, Cluster API's core manager and clusterctl. It links a kube-apiserver for each version of cloud/emulator/workload/versions.txt. The
# sources are compiled once, because only the version in the binary differs. From the modules it also renders the core provider's manifests
# (CRDs, webhooks) into bin/capi-core/. make calls it and sets Go's flags.
#
# It compiles only what hack/prebuilt could not fetch (hack/prebuilt/doc.go describes PREBUILT and PREBUILT_FLAGS).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
bin=$root/bin
versions=$(grep '^v' "$root/cloud/emulator/workload/versions.txt")
newest=$(echo "$versions" | tail -n 1)
assets=${KUBEBUILDER_ASSETS:-}
if [ "$assets" = "$bin" ]; then assets=; fi
mkdir -p "$bin"
export GOWORK=off

# shellcheck disable=SC2086 # a list of words
programs="$(printf 'kube-apiserver-%s ' $versions)kube-controller-manager kube-scheduler kwok capi-core-manager clusterctl"
if [ -z "$assets" ]; then programs="etcd $programs"; fi
if ! command -v kubectl >/dev/null; then programs="$programs kubectl"; fi
programs="$programs kustomize"
fetched=
# shellcheck disable=SC2086 # lists of words
[ "${PREBUILT:-}" = 0 ] || fetched=$(cd "$root" && go run ./hack/prebuilt ${PREBUILT_FLAGS:-} $programs)
steps=$(($(echo "$programs" | wc -w) - $(echo "$fetched" | wc -w)))
step=0

# module PATH FIELD: prints a field of a module, such as its folder.
module() { (cd "$here" && go mod download "$1" && go list -m -f "{{.$2}}" "$1"); }

# stamp PACKAGE VERSION: prints the linker flags with which a binary reports that version, as in a release build.
stamp() {
	major=${2#v}; major=${major%%.*}
	minor=${2#v*.}; minor=${minor%%.*}
	echo "-s -w -X $1.gitVersion=$2 -X $1.gitMajor=$major -X $1.gitMinor=$minor -X $1.gitTreeState=clean"
}

# build NAME PACKAGE [VERSION PACKAGE]: builds what is needed and was not fetched. The package of the version is Kubernetes' or another one.
build() {
	case " $fetched " in *" $1 "*) return 0 ;; esac
	case " $programs " in *" $1 "*) ;; *) return 0 ;; esac
	step=$((step + 1))
	printf '[%2d/%d] ' "$step" "$steps"
	flags="-s -w"
	if [ -n "${3:-}" ]; then flags=$(stamp "${4:-k8s.io/component-base/version}" "$3"); fi
	"$root/hack/build.sh" "$1" "$2" kube "$flags"
}

if [ "$steps" -gt 0 ]; then
	echo "Kubernetes' servers and Cluster API into bin/: compiled once (5 to 15 minutes on 2 cores), afterwards taken from Go's build cache"
fi
build etcd go.etcd.io/etcd/server/v3
for v in $versions; do build "kube-apiserver-$v" k8s.io/kubernetes/cmd/kube-apiserver "$v"; done
ln -sf "kube-apiserver-$newest" "$bin/kube-apiserver"
if [ -n "$assets" ]; then
	echo "etcd, kube-apiserver from KUBEBUILDER_ASSETS ($assets)"
	ln -sf "$assets/etcd" "$bin/etcd"
	ln -sf "$assets/kube-apiserver" "$bin/kube-apiserver"
fi
build kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager "$newest"
build kube-scheduler k8s.io/kubernetes/cmd/kube-scheduler "$newest"
build kubectl k8s.io/kubernetes/cmd/kubectl "$newest"
build kwok sigs.k8s.io/kwok/cmd/kwok
core=$(module sigs.k8s.io/cluster-api Version)
build capi-core-manager sigs.k8s.io/cluster-api/core "$core" sigs.k8s.io/cluster-api/version
build clusterctl sigs.k8s.io/cluster-api/cmd/clusterctl "$core" sigs.k8s.io/cluster-api/version
build kustomize sigs.k8s.io/kustomize/kustomize/v5

mkdir -p "$bin/capi-core"
"$bin/kustomize" build "$(module sigs.k8s.io/cluster-api Dir)/core/config/default" >"$bin/capi-core/core-components.yaml.new"
mv "$bin/capi-core/core-components.yaml.new" "$bin/capi-core/core-components.yaml"

# The stages with which kwok simulates kubelets: the stock stages that package workload does not replace, in one file.
stages=$(module sigs.k8s.io/kwok Dir)/kustomize/stage
for stage in node/heartbeat-with-lease/node-heartbeat-with-lease pod/fast/pod-ready \
	pod/fast/pod-complete pod/fast/pod-delete; do
	echo ---
	cat "$stages/$stage.yaml"
done >"$bin/kwok-stages.yaml"
