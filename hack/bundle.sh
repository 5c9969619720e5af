#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bundle.sh ARCHIVE LDFLAGS: writes the sandbox with all that it needs into an archive, in a folder that has the archive's name. Running it
# needs neither Go nor this repository. Package test/sandbox finds bin/, config/ and templates/ beside its program. make bundle calls this
# script after make kube and make licenses, and sets Go's flags.
set -euo pipefail
cd "$(dirname "$0")/.."
name=$(basename "$1" .tar.gz)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bundle=$scratch/$name
mkdir -p "$bundle/bin" "$(dirname "$1")"

go build -ldflags "-s -w $2" -o "$bundle/bin/manager" .
go build -ldflags "-s -w $2" -o "$bundle/bin/" ./cmd/...
for program in etcd kube-controller-manager kube-scheduler kwok capi-core-manager clusterctl kustomize kwok-stages.yaml capi-core; do
	cp -RL "bin/$program" "$bundle/bin/"
done
versions=$(grep '^v' cloud/emulator/workload/versions.txt)
for version in $versions; do cp -L "bin/kube-apiserver-$version" "$bundle/bin/"; done
ln -s "kube-apiserver-$version" "$bundle/bin/kube-apiserver"
# make kube builds kubectl only if this machine has none, but the user's machine may have none.
if [ -x bin/kubectl ]; then cp -L bin/kubectl "$bundle/bin/"; else
	(cd hack/kube && GOWORK=off go build -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version" \
		-o "$bundle/bin/kubectl" k8s.io/kubernetes/cmd/kubectl)
fi

cp -R config templates LICENSE "$bundle/"
cp -R bin/image/licenses "$bundle/licenses"
(cd hack/kube && GOWORK=off go list -deps -f '{{with .Module}}{{.Path}} {{.Dir}}{{end}}' tool) | sort -u | while read -r module dir; do
	mkdir -p "$bundle/licenses/$module"
	find "$dir" -maxdepth 1 -type f -regextype posix-extended -iregex '.*/(licen[cs]e|copying|notice|patents)[^/]*' \
		-exec cp -t "$bundle/licenses/$module/" {} +
done
chmod -R u+w "$bundle/licenses" # files of Go's module cache are read-only

ln -s bin/portal-sandbox bin/portal-player "$bundle/"
cat >"$bundle/demo" <<'DEMO'
#!/bin/sh
exec "$(dirname "$0")/bin/portal-sandbox" demo "$@"
DEMO
chmod +x "$bundle/demo"
cat >"$bundle/README.md" <<'README'
./portal-sandbox    a management cluster with the portal provider, and an emulated portal, until Ctrl-C
./demo              a cluster's life in such a sandbox: create, scale, upgrade, roll out, delete
./portal-player     a recording of the demo

Each prints the address of a page for a browser. Everything listens on 127.0.0.1. The licences of all programs are in licenses/.
README
# gzip -4 takes half the time of the default, for 4 % more bytes.
tar -I 'gzip -4' -cf "$1" --sort=name --mtime=@0 --owner=0 --group=0 -C "$scratch" "$name"
