#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# notes.sh VERSION: prints the notes of a release as Markdown: the subjects of the commits since the last release, or of all commits if there
# is none, by the area before the colon. Candidates (v1.2.3-rc.1) count only for the notes of the next candidate, so a release has all that is
# new for its users. Tests, tools and documentation are left out. make release calls it.
set -eu
cd "$(dirname "$0")/.."
case $1 in *-*) others=$1 ;; *) others='*-*' ;; esac
since=$(git describe --tags --abbrev=0 --match 'v[0-9]*' --exclude "$1" --exclude "$others" 2>/dev/null) || since=
# The folders of tests and tools are their areas.
omitted=$(for folder in test/*/ hack/*/; do basename "$folder"; done | paste -sd '|')

echo "# Changes in $1${since:+ since $since}"
git log --no-merges --reverse --format=%s ${since:+"$since.."} |
	grep -E '^[a-z0-9-]+: ' | grep -vE "^(docs|test|hack|build|make|ci|$omitted): " | sort -s -t : -k 1,1 |
	awk '{ area = $1; sub(/^[^ ]+ /, "") } area != last { printf "\n## %s\n\n", substr(area, 1, length(area) - 1); last = area } { print "- " $0 }'
