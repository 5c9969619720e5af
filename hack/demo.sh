#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# make demo: says what it will do, builds what is missing, and runs the demonstration with the flags given. How long each build
# took is kept in bin/.took, for the next run's announcement.
set -euo pipefail
cd "$(dirname "$0")/.."
make=${MAKE:-make}
took=bin/.took
mkdir -p bin

# last TARGET: how many seconds the target's build took last time; nothing if that is unknown.
last() {
	awk -v target="$1" '$1 == target { seconds = $2 } END { print seconds }' "$took" 2>/dev/null || true
}

# plan TARGET FILE WHAT FIRST: announces a build. FILE is there when nothing is to be built, FIRST is how long it takes at first.
plan() {
	local seconds
	seconds=$(last "$1")
	if [ -n "$2" ] && "$make" --no-print-directory -q "$2" 2>/dev/null; then
		echo "  $3: built already"
	elif [ -n "$seconds" ]; then
		echo "  $3: took $seconds s here last time"
	else
		echo "  $3: $4"
	fi
}

# run TARGET: builds the target, and records how long that took.
run() {
	local begin=$SECONDS
	"$make" --no-print-directory "$1"
	echo "$1 $((SECONDS - begin))" >>"$took"
}

echo "make demo builds what is missing, and then takes a cluster through its life on this machine:"
plan kube bin/.kube "1. compile etcd, kube-apiserver and the like (make kube)" "about 5 minutes on 2 cores, once"
plan core bin/.core "2. compile Cluster API's core manager and clusterctl (make core)" "about 3 minutes on 2 cores, once"
plan build "" "3. compile the provider and the sandbox (make build)" "about 2 minutes on 2 cores, seconds afterwards"
echo "  4. create, scale, upgrade, roll out and delete a cluster: about 3 minutes; the steps are listed when it begins"
echo

"$make" --no-print-directory -q bin/.kube 2>/dev/null || run kube
"$make" --no-print-directory -q bin/.core 2>/dev/null || run core
run build
exec bin/portal-sandbox demo "$@"
