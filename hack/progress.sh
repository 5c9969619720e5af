#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# progress.sh go build -v …: shows how many packages are compiled, while they are. On a terminal a counter is overwritten, elsewhere
# each hundred is a dot. All else that the command prints goes to stderr, as without this script.
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
