#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# hack/slow.sh PERCENT COMMAND...: runs the command with this share of the machine's CPUs, as on a busy machine. It needs root and cgroups.
# Without them it does not run the command, and says why.
set -euo pipefail
percent=$1
shift
name=portal-slow-$$
quota=$((100000 * $(nproc) * percent / 100)) # in each 100,000 µs

# limit puts this process into a group of its own, of which cgroups have one of two versions.
limit() {
	if [ -f /sys/fs/cgroup/cgroup.subtree_control ]; then
		groups=/sys/fs/cgroup
		echo +cpu >$groups/cgroup.subtree_control && mkdir $groups/$name && echo "$quota 100000" >$groups/$name/cpu.max
	else
		groups=/sys/fs/cgroup/cpu
		mkdir $groups/$name && echo 100000 >$groups/$name/cpu.cfs_period_us && echo "$quota" >$groups/$name/cpu.cfs_quota_us
	fi && echo $$ >$groups/$name/cgroup.procs
}

limit || {
	echo "skipped: the CPUs cannot be limited, which needs root and cgroups"
	exit
}
trap 'echo $$ >$groups/cgroup.procs && rmdir $groups/$name' EXIT
"$@"
