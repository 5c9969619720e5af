#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# build.sh NAME PACKAGE FOLDER [LDFLAGS]: builds a program into bin/NAME, from the modules pinned in the given folder of hack/, and prints how
# long that took. make calls it and sets Go's flags.
set -eu
hack=$(cd "$(dirname "$0")" && pwd)
bin=$hack/../bin
mkdir -p "$bin"

printf '%-34s' "$1"
begin=$(date +%s)
cd "$hack/$3"
GOWORK=off "$hack/progress.sh" go build -v -ldflags "${4:--s -w}" -o "$bin/$1" "$2" || {
	echo "hack/build.sh: $1 did not build" >&2
	exit 1
}
touch "$bin/$1" # an up-to-date binary keeps its old time, which make would take for stale
echo " $(($(date +%s) - begin)) s"
