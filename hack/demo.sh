#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# make demo: announces its steps, builds what is missing, and runs the demonstration with the given flags. While it compiles for minutes, a
# recording of the demonstration can be watched. It records the duration of each build in bin/.took, for the announcement of the next run.
set -euo pipefail
cd "$(dirname "$0")/.."
make=${MAKE:-make}
took=bin/.took
mkdir -p bin

# last TARGET: prints how many seconds the target's build took last time, or nothing if that is unknown.
last() {
	awk -v target="$1" '$1 == target { seconds = $2 } END { print seconds }' "$took" 2>/dev/null || true
}

# plan TARGET FILE WHAT FIRST: announces a build. If FILE is up to date, nothing needs to be built. FIRST is the duration of the first
# build.
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

# run TARGET: builds the target and records the duration, which plan uses.
run() {
	local begin=$SECONDS
	"$make" --no-print-directory "$1"
	echo "$1 $((SECONDS - begin))" >>"$took"
	echo "make $1 took $((SECONDS - begin)) s"
}

# steps: prints how long the demonstration itself took last time. The demonstration records its steps when they end, and lists them at its
# start.
steps() {
	local seconds
	seconds=$(grep -o '":[0-9.]*' bin/.demo-took.json 2>/dev/null | awk -F: '{ sum += $2 } END { if (sum) printf "%.0f", sum }' || true)
	if [ -n "$seconds" ]; then echo "took $seconds s here last time"; else echo "about 3 minutes"; fi
}

# play MINUTES: serves a recording of the demonstration while the rest compiles. The player compiles in seconds. If it does not, make build
# says why.
player=
play() {
	local line=
	go build -o bin/ ./cmd/portal-player 2>/dev/null || return 0
	read -r -t 10 line < <(exec bin/portal-player) || true
	player=$!
	trap stop EXIT
	[ -n "$line" ] || return 0
	echo "While this is fetched or compiled (up to $1 minutes, once), watch a recorded run: ${line##* }"
	echo
}

# stop: ends the player.
stop() {
	[ -z "$player" ] || kill "$player" 2>/dev/null || true
}

# Without this, bash goes on after Ctrl-C if the command that it waits for ends by itself at that moment.
trap 'exit 130' INT

echo "make demo builds what is missing, and then takes a cluster through its life on this machine:"
plan kube bin/.kube "1. fetch Kubernetes' servers and Cluster API, or compile them (make kube)" "5 to 15 minutes on 2 cores, once"
plan build "" "2. compile the provider and the sandbox (make build)" "up to 2 minutes on 2 cores, seconds afterwards"
echo "  3. create, scale, upgrade, roll out and delete a cluster: $(steps); the steps are listed when it begins"
echo

minutes=0
if ! "$make" --no-print-directory -q bin/.kube 2>/dev/null; then
	minutes=8
	echo "Modules, Go's build cache and the programs take up to 5 GB of disk."
fi
[ -x bin/portal-sandbox ] || minutes=$((minutes + 2))
[ "$minutes" = 0 ] || play "$minutes"

"$make" --no-print-directory -q bin/.kube 2>/dev/null || run kube
run build
stop
exec bin/portal-sandbox demo "$@"
