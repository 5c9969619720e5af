#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# make nightly: runs what .ci/run leaves out, one suite after the other, and prints for each how long it took and what it skipped, or its last
# lines if it failed. The whole output of each is in bin/nightly. hack/nightly.sh TARGET... runs only these.
set -uo pipefail
cd "$(dirname "$0")/.."
make=${MAKE:-make}
logs=bin/nightly
mkdir -p "$logs"
suites=(
	"test-race RACED=all"
	test-nightly
	test-slow
	test-browser
	test-dashboards
	test-upgrade
	test-operator
	test-flux
	test-autoscaler
	test-upstream
	test-e2e
	"lives LIVES=1000"
	exhaustive
	"soak FOR=20m SEED=$(date +%s)"
	"fuzz FUZZTIME=1m"
	"mutants FLOORS=unit,client,world,contract,witness"
)
[ $# = 0 ] || suites=("$@")
printf 'make %s\n' "${suites[@]}"
failed=0
for suite in "${suites[@]}"; do
	begin=$SECONDS
	log=$logs/${suite%% *}.log
	# shellcheck disable=SC2086 # a target and its variables
	if "$make" --no-print-directory $suite >"$log" 2>&1; then result=passed; else result=failed failed=1; fi
	printf '%-32s %-7s %3d min\n' "make $suite" "$result" $(((SECONDS - begin + 59) / 60))
	# make's own last line says only that a command failed.
	if [ "$result" = failed ]; then grep -v -e '^make' -e '^exit status' -e '^FAIL$' "$log" | tail -n 3 | sed 's/^/    /'; fi
	# The reason of a skip is a line of the test's own output.
	awk '
		/^=== (RUN|CONT|NAME)/ { test = $3 }
		/^ +[a-z_0-9]+\.go:[0-9]+: / { sub(/^ +[a-z_0-9]+\.go:[0-9]+: /, ""); says[test] = $0 }
		/^skipped: / { print "    " $0 }
		/--- SKIP: / { print "    skipped: " $3 ": " says[$3] }
		/\[SKIPPED\] \[/ { getline reason; sub(/^ */, "", reason); print "    skipped: " reason }' "$log" | sort -u
done
exit "$failed"
