#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# build.sh core: brings Cluster API's core manager and clusterctl into bin/. It compiles what hack/prebuilt could not fetch
# (hack/prebuilt/doc.go describes PREBUILT and PREBUILT_FLAGS), from the modules pinned in this folder. From these modules it also renders
# the core provider's manifests (CRDs, webhooks) into bin/capi-core/.
# build.sh NAME PACKAGE [MODULE]: builds one tool into bin/NAME, from the modules pinned in this folder or in the given folder of hack/.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$here/../.." && pwd)/bin
mkdir -p "$bin"
cd "$here/../${3:-tools}"
export CGO_ENABLED=0 GOWORK=off

# build NAME PACKAGE [FLAGS...]: builds what was not fetched.
fetched=
build() {
	name=$1 package=$2
	shift 2
	case " $fetched " in *" $name "*) return 0 ;; esac
	printf '%-34s' "$name"
	begin=$(date +%s)
	"$here/../progress.sh" go build -v -trimpath -o "$bin/$name" "$@" "$package" || {
		echo "hack/tools/build.sh: $name did not build" >&2
		exit 1
	}
	touch "$bin/$name" # an up-to-date binary keeps its old time, which make would take for stale
	echo " $(($(date +%s) - begin)) s"
}

# core: the manager and clusterctl report the version of their module, as the released binaries do. The build tag is that of the released
# manager.
core() {
	# shellcheck disable=SC2086 # several flags
	[ "${PREBUILT:-}" = 0 ] || fetched=$(cd "$here/../.." && go run -trimpath ./hack/prebuilt ${PREBUILT_FLAGS:-} capi-core-manager clusterctl)
	go mod download sigs.k8s.io/cluster-api
	version=$(go list -m -f '{{.Version}}' sigs.k8s.io/cluster-api)
	minor=${version#v*.}
	p=sigs.k8s.io/cluster-api/version
	ldflags="-s -w -X $p.gitVersion=$version -X $p.gitMajor=1 -X $p.gitMinor=${minor%%.*} -X $p.gitTreeState=clean"
	build capi-core-manager sigs.k8s.io/cluster-api/core -tags fieldsv1string -ldflags "$ldflags"
	build clusterctl sigs.k8s.io/cluster-api/cmd/clusterctl -ldflags "$ldflags"
	build kustomize sigs.k8s.io/kustomize/kustomize/v5 -ldflags '-s -w'
	mkdir -p "$bin/capi-core"
	"$bin/kustomize" build "$(go list -m -f '{{.Dir}}' sigs.k8s.io/cluster-api)/core/config/default" >"$bin/capi-core/core-components.yaml.new"
	mv "$bin/capi-core/core-components.yaml.new" "$bin/capi-core/core-components.yaml"
}

if [ "$1" = core ]; then core; else build "$1" "$2" -ldflags '-s -w'; fi
