#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# progress.sh go build -v …: counts the modules that are downloaded and the packages that are compiled. On a terminal it overwrites a counter,
# elsewhere it prints a dot for each hundred. All other output of the command goes to stderr, as without this script.
set -euo pipefail
terminal=
if [ -t 1 ]; then terminal=1; fi

"$@" 2>&1 | awk -v terminal="$terminal" '
	function counted() {
		if (!terminal && (modules + packages) % 100 == 0) printf "."
		if (terminal) show(sprintf(" %d modules downloaded, %d packages compiled", modules, packages))
		fflush()
	}
	function show(text) {
		printf "%s", text
		for (i = length(text); i > 0; i--) printf "\b"
	}
	/^go: downloading / { modules++; counted(); next }
	/^[A-Za-z0-9._~\/-]+$/ && !/^FAIL$/ { packages++; counted(); next } # a package is a path, and nothing else is
	{ print >"/dev/stderr" }
	END { if (terminal && modules + packages) show(sprintf("%60s", "")) }'
