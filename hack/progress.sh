#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# progress.sh go build -v …: shows how many packages have been compiled. On a terminal it overwrites a counter, elsewhere it prints a dot
# for each hundred packages. All other output of the command goes to stderr, as without this script.
set -euo pipefail
terminal=
if [ -t 1 ]; then terminal=1; fi

"$@" 2>&1 | awk -v terminal="$terminal" '
	/^[A-Za-z0-9._~\/-]+$/ && !/^FAIL$/ { # a package is a path, and nothing else is
		packages++
		if (terminal) {
			text = sprintf(" %d packages", packages)
			printf "%s", text
			for (i = length(text); i > 0; i--) printf "\b"
			fflush()
		} else if (packages % 100 == 0) {
			printf "."
			fflush()
		}
		next
	}
	{ print >"/dev/stderr" }
	END {
		if (!terminal || !packages) exit
		text = sprintf(" %d packages", packages)
		gsub(/./, " ", text)
		printf "%s", text
		for (i = length(text); i > 0; i--) printf "\b"
	}'
