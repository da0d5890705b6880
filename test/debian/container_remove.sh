#!/bin/sh
# container_remove.sh CGROUP DIRECTORY: removes what a container leaves, when its test ends however that does: then
# nobody holds the other end of standard input.
cat >/dev/null
echo 1 >"$1/cgroup.kill"
# Processes take a moment to end.
until find "$1" -depth -type d -exec rmdir {} + 2>/dev/null || [ ! -e "$1" ]; do
	sleep 0.1
done
rm -rf --one-file-system "$2"
