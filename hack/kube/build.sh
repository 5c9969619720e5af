#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds the Kubernetes binaries that the sandbox and the tests run into bin/, from the Go modules pinned in this folder. It links a
# kube-apiserver for each version of cloud/emulator/workload/versions.txt. The sources are compiled once, because only the version in the
# binary differs. Later builds come from Go's build cache.
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

# shellcheck disable=SC2086 # a list of words
programs="$(printf 'kube-apiserver-%s ' $versions)kube-controller-manager kube-scheduler kwok"
if [ -z "$assets" ]; then programs="etcd $programs"; fi
if ! command -v kubectl >/dev/null; then programs="$programs kubectl"; fi
fetched=
# shellcheck disable=SC2086 # lists of words
[ "${PREBUILT:-}" = 0 ] || fetched=$(cd "$root" && CGO_ENABLED=0 GOWORK=off go run -trimpath ./hack/prebuilt ${PREBUILT_FLAGS:-} $programs)
steps=$(($(echo "$programs" | wc -w) - $(echo "$fetched" | wc -w)))
step=0

# stamp VERSION: prints the linker flags with which a binary reports that version, as in a release build.
stamp() {
	p=k8s.io/component-base/version
	major=${1#v}; major=${major%%.*}
	minor=${1#v*.}; minor=${minor%%.*}
	echo "-s -w -X $p.gitVersion=$1 -X $p.gitMajor=$major -X $p.gitMinor=$minor -X $p.gitTreeState=clean"
}

# build NAME PACKAGE LDFLAGS [NOTE]: builds what was not fetched.
build() {
	case " $fetched " in *" $1 "*) return 0 ;; esac
	step=$((step + 1))
	printf '[%d/%d] %-28s' "$step" "$steps" "$1"
	if [ -n "${4:-}" ] && [ ! -e "$bin/$1" ]; then printf ' (%s)' "$4"; fi
	begin=$(date +%s)
	(cd "$here" && CGO_ENABLED=0 GOWORK=off "$here/../progress.sh" go build -v -trimpath -ldflags "$3" -o "$bin/$1" "$2") || {
		echo "hack/kube/build.sh: $1 did not build" >&2
		exit 1
	}
	echo " $(($(date +%s) - begin)) s"
}

# compile builds everything but kwok.
compile() {
	if [ "$steps" -gt 0 ]; then
		echo "Kubernetes binaries into bin/: compiled once (about 10 minutes on 2 cores), afterwards taken from Go's build cache"
	fi
	if [ -n "$assets" ]; then
		echo "      etcd, kube-apiserver         from KUBEBUILDER_ASSETS ($assets)"
		ln -sf "$assets/etcd" "$bin/etcd"
		ln -sf "$assets/kube-apiserver" "$bin/kube-apiserver"
	else
		build etcd go.etcd.io/etcd/server/v3 "-s -w"
		ln -sf "kube-apiserver-$newest" "$bin/kube-apiserver"
	fi
	note="about 2000 packages and 3 minutes when nothing is cached"
	for v in $versions; do
		build "kube-apiserver-$v" k8s.io/kubernetes/cmd/kube-apiserver "$(stamp "$v")" "$note"
		note=
	done
	build kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager "$(stamp "$newest")"
	build kube-scheduler k8s.io/kubernetes/cmd/kube-scheduler "$(stamp "$newest")"
	if ! command -v kubectl >/dev/null; then
		build kubectl k8s.io/kubernetes/cmd/kubectl "$(stamp "$newest")"
	fi
}

compile
build kwok sigs.k8s.io/kwok/cmd/kwok "-s -w"

# The stages with which kwok simulates kubelets: the stock stages that package workload does not replace, in one file.
stages=$(cd "$here" && go mod download sigs.k8s.io/kwok && go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage
for stage in node/heartbeat-with-lease/node-heartbeat-with-lease pod/fast/pod-ready \
	pod/fast/pod-complete pod/fast/pod-delete; do
	echo ---
	cat "$stages/$stage.yaml"
done >"$bin/kwok-stages.yaml"
